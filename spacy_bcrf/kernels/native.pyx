# distutils: language = c++
"""The compiled CPU kernels behind `spacy_bcrf.kernels`: allocation of outputs, and the call.

Pointers and sizes only; no `cimport` of NumPy, Thinc or spaCy, so a wheel is tied to no build of theirs.
"""

cdef extern from "cpu/batch.hh" namespace "bcrf" nogil:
    cdef cppclass Batch[In]:
        const In* unary
        const In* transitions
        const int* lengths
        int size, tags
        bint shared

cdef extern from "cpu/bregman_options.hh" namespace "bcrf" nogil:
    cdef cppclass BregmanOptions:
        int n_iter
        double relaxation
        double tolerance
        bint lower
        double scale

cdef extern from "cpu/kernels.hh" namespace "bcrf" nogil:
    void c_sum_product "bcrf::sum_product"(const Batch[float]&, float*, float*, double*, float*) except +
    void c_sum_product "bcrf::sum_product"(const Batch[double]&, double*, double*, double*, double*) except +

cdef extern from "cpu/kernels.hh" namespace "bcrf" nogil:
    void c_max_product "bcrf::max_product"(const Batch[float]&, int*, float*) except +
    void c_max_product "bcrf::max_product"(const Batch[double]&, int*, double*) except +

cdef extern from "cpu/kernels.hh" namespace "bcrf" nogil:
    void c_bregman "bcrf::bregman"(const Batch[float]&, const BregmanOptions&, float*, float*, double*, float*) except +
    void c_bregman "bcrf::bregman"(const Batch[double]&, const BregmanOptions&, double*, double*, double*, double*) except +

ctypedef fused real:
    float
    double

import numpy

from . import Result


def sum_product(xp, unary, transitions, lengths, edges, marginals):
    value, node, sums, each = _outputs(unary, lengths, edges, marginals)
    if unary.shape[0]:
        if unary.dtype == numpy.float32:
            _sum_product[float](unary, transitions, lengths, value, node, sums, each)
        else:
            _sum_product[double](unary, transitions, lengths, value, node, sums, each)
    return Result(value, node, _edges(each, sums, unary))


def max_product(xp, unary, transitions, lengths):
    tags = numpy.zeros(unary.shape[0], dtype="int32")
    scores = numpy.zeros(lengths.shape[0], dtype=unary.dtype)
    if unary.shape[0]:
        if unary.dtype == numpy.float32:
            _max_product[float](unary, transitions, lengths, tags, scores)
        else:
            _max_product[double](unary, transitions, lengths, tags, scores)
    return tags, scores


def bregman(xp, unary, transitions, lengths, options, edges):
    value, node, sums, each = _outputs(unary, lengths, edges, True)
    if unary.shape[0]:
        if unary.dtype == numpy.float32:
            _bregman[float](unary, transitions, lengths, options, value, node, sums, each)
        else:
            _bregman[double](unary, transitions, lengths, options, value, node, sums, each)
    return Result(value, node, _edges(each, sums, unary))


def _outputs(unary, lengths, edges, marginals):
    n, t = unary.shape
    value = numpy.zeros(lengths.shape[0], dtype=unary.dtype)
    node = numpy.empty_like(unary) if marginals else None
    # Summed over a whole batch, so in double.
    sums = numpy.zeros((t, t)) if edges == "sum" else None
    each = numpy.zeros((n, t, t), dtype=unary.dtype) if edges == "each" else None
    return value, node, sums, each


def _edges(each, sums, unary):
    return sums.astype(unary.dtype) if sums is not None else each


cdef Batch[real] _batch(const real[:, ::1] unary, transitions, const int[::1] lengths):
    cdef Batch[real] batch
    cdef const real[::1] scores = transitions.reshape(-1)
    batch.unary = &unary[0, 0]
    batch.transitions = &scores[0]
    batch.lengths = &lengths[0]
    batch.size = <int>lengths.shape[0]
    batch.tags = <int>unary.shape[1]
    batch.shared = transitions.ndim == 2
    return batch


cdef real* _pointer(array, real* of) except? NULL:
    """The data of an array, or NULL for None; `of` only names the type."""
    if array is None:
        return NULL
    cdef real[::1] flat = array.reshape(-1)
    return &flat[0]


cdef _sum_product(const real[:, ::1] unary, transitions, const int[::1] lengths, value, node, sums, each):
    cdef Batch[real] batch = _batch[real](unary, transitions, lengths)
    cdef real* none = NULL
    cdef double* no_sums = NULL
    cdef real* value_at = _pointer[real](value, none)
    cdef real* node_at = _pointer[real](node, none)
    cdef double* sums_at = _pointer[double](sums, no_sums)
    cdef real* each_at = _pointer[real](each, none)
    with nogil:
        c_sum_product(batch, value_at, node_at, sums_at, each_at)


cdef _max_product(const real[:, ::1] unary, transitions, const int[::1] lengths, int[::1] tags, real[::1] scores):
    cdef Batch[real] batch = _batch[real](unary, transitions, lengths)
    with nogil:
        c_max_product(batch, &tags[0], &scores[0])


cdef _bregman(
    const real[:, ::1] unary, transitions, const int[::1] lengths, options, value, node, sums, each
):
    cdef Batch[real] batch = _batch[real](unary, transitions, lengths)
    cdef BregmanOptions c_options
    c_options.n_iter = options.n_iter
    c_options.relaxation = 0 if options.relaxation is None else options.relaxation
    c_options.tolerance = -1 if options.tolerance is None else options.tolerance
    c_options.lower = options.bound == "lower"
    c_options.scale = options.scale
    cdef real* none = NULL
    cdef double* no_sums = NULL
    cdef real* value_at = _pointer[real](value, none)
    cdef real* node_at = _pointer[real](node, none)
    cdef double* sums_at = _pointer[double](sums, no_sums)
    cdef real* each_at = _pointer[real](each, none)
    with nogil:
        c_bregman(batch, c_options, value_at, node_at, sums_at, each_at)
