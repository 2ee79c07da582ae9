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
        int threads

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

cdef extern from "cpu/kernels.hh" namespace "bcrf" nogil:
    void c_n_best "bcrf::nbest"(const Batch[float]&, int, int*, float*) except +
    void c_n_best "bcrf::nbest"(const Batch[double]&, int, int*, double*) except +

cdef extern from "cpu/kernels.hh" namespace "bcrf" nogil:
    void c_beam_search "bcrf::beam_search"(const Batch[float]&, int, int, int*, float*) except +
    void c_beam_search "bcrf::beam_search"(const Batch[double]&, int, int, int*, double*) except +

cdef extern from "cpu/kernels.hh" namespace "bcrf" nogil:
    void c_best_first "bcrf::dijkstra"(const Batch[float]&, int*, float*, long long*) except +
    void c_best_first "bcrf::dijkstra"(const Batch[double]&, int*, double*, long long*) except +

cdef extern from "cpu/features.hh" namespace "bcrf" nogil:
    cdef cppclass Labelings[In]:
        const int* tags
        const In* weights
        const int* lengths
        int n, size, n_tags
        size_t tokens
    void c_add_features "bcrf::add_features"(const Labelings[float]&, float*, double*, float*) except +
    void c_add_features "bcrf::add_features"(const Labelings[double]&, double*, double*, double*) except +
    void c_hildreth "bcrf::hildreth"(int, int, const double*, const double*, double, double*)
    void c_feature_products "bcrf::gram_matrices"(const Labelings[double]&, bint, double*) except +

cdef extern from "cpu/features.hh" namespace "bcrf" nogil:
    void c_path_scores "bcrf::path_scores"(const Batch[float]&, const int*, float*)
    void c_path_scores "bcrf::path_scores"(const Batch[double]&, const int*, double*)

cdef extern from "cpu/kernels.hh" namespace "bcrf" nogil:
    void c_mean_field "bcrf::mean_field"(const Batch[float]&, int, const int*, float*, float*, double*, float*) except +
    void c_mean_field "bcrf::mean_field"(const Batch[double]&, int, const int*, double*, double*, double*, double*) except +

cdef extern from "cpu/kernels.hh" namespace "bcrf" nogil:
    void c_entropy "bcrf::entropy"(const Batch[float]&, float*) except +
    void c_entropy "bcrf::entropy"(const Batch[double]&, double*) except +

cdef extern from "cpu/kernels.hh" namespace "bcrf" nogil:
    void c_pair_marginals "bcrf::pair_marginals"(const Batch[float]&, int, const int*, const int*, float*, float*) except +
    void c_pair_marginals "bcrf::pair_marginals"(const Batch[double]&, int, const int*, const int*, double*, double*) except +

cdef extern from "cpu/kernels.hh" namespace "bcrf" nogil:
    void c_sample "bcrf::sample"(const Batch[float]&, int, const double*, int*) except +
    void c_sample "bcrf::sample"(const Batch[double]&, int, const double*, int*) except +

ctypedef fused real:
    float
    double

import numpy

from . import Result, threads


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


def mean_field(xp, unary, transitions, lengths, n_iter):
    value, node, _, _ = _outputs(unary, lengths, "none", True)
    if unary.shape[0]:
        if unary.dtype == numpy.float32:
            _mean_field[float](unary, transitions, lengths, n_iter, None, value, node, None, None)
        else:
            _mean_field[double](unary, transitions, lengths, n_iter, None, value, node, None, None)
    return Result(value, node, None)


def mean_field_loss(xp, unary, transitions, lengths, gold, n_iter):
    edges = "sum" if transitions.ndim == 2 else "each"
    value, node, sums, each = _outputs(unary, lengths, edges, True)
    if unary.shape[0]:
        if unary.dtype == numpy.float32:
            _mean_field[float](unary, transitions, lengths, n_iter, gold, value, node, sums, each)
        else:
            _mean_field[double](unary, transitions, lengths, n_iter, gold, value, node, sums, each)
    edge = _edges(each, sums, unary)
    # Forbidden transitions are no scores of this function.
    edge[transitions == -numpy.inf] = 0
    return Result(value, node, edge)


def entropy(xp, unary, transitions, lengths):
    entropies = numpy.zeros(lengths.shape[0], dtype=unary.dtype)
    if unary.shape[0]:
        if unary.dtype == numpy.float32:
            _entropy[float](unary, transitions, lengths, entropies)
        else:
            _entropy[double](unary, transitions, lengths, entropies)
    return entropies


def pair_marginals(xp, unary, transitions, lengths, heads, tails):
    node = numpy.zeros_like(unary)
    pairs = numpy.zeros((unary.shape[0], heads.shape[0]), dtype=unary.dtype)
    if unary.shape[0] and heads.shape[0]:
        if unary.dtype == numpy.float32:
            _pair_marginals[float](unary, transitions, lengths, heads, tails, node, pairs)
        else:
            _pair_marginals[double](unary, transitions, lengths, heads, tails, node, pairs)
    return node, pairs


def sample(xp, unary, transitions, lengths, uniform):
    tags = numpy.zeros(uniform.shape, dtype="int32")
    if tags.size:
        if unary.dtype == numpy.float32:
            _sample[float](unary, transitions, lengths, uniform, tags)
        else:
            _sample[double](unary, transitions, lengths, uniform, tags)
    return tags


def nbest(xp, unary, transitions, lengths, n):
    tags, scores = _labelings(unary, lengths, n)
    if unary.shape[0]:
        if unary.dtype == numpy.float32:
            _n_best[float](unary, transitions, lengths, n, 0, tags, scores)
        else:
            _n_best[double](unary, transitions, lengths, n, 0, tags, scores)
    return tags, scores


def beam_search(xp, unary, transitions, lengths, n, width):
    tags, scores = _labelings(unary, lengths, n)
    if unary.shape[0]:
        if unary.dtype == numpy.float32:
            _n_best[float](unary, transitions, lengths, n, width, tags, scores)
        else:
            _n_best[double](unary, transitions, lengths, n, width, tags, scores)
    return tags, scores


def dijkstra(xp, unary, transitions, lengths):
    tags = numpy.zeros(unary.shape[0], dtype="int32")
    scores = numpy.zeros(lengths.shape[0], dtype=unary.dtype)
    expanded = numpy.zeros(lengths.shape[0], dtype=numpy.longlong)
    if unary.shape[0]:
        if unary.dtype == numpy.float32:
            _best_first[float](unary, transitions, lengths, tags, scores, expanded)
        else:
            _best_first[double](unary, transitions, lengths, tags, scores, expanded)
    return tags, scores, expanded


def path_scores(xp, unary, transitions, lengths, tags):
    scores = numpy.zeros(lengths.shape[0], dtype=unary.dtype)
    if unary.shape[0]:
        if unary.dtype == numpy.float32:
            _path_scores[float](unary, transitions, lengths, tags, scores)
        else:
            _path_scores[double](unary, transitions, lengths, tags, scores)
    return scores


def add_features(xp, tags, weights, lengths, node, edge):
    if tags.size == 0:
        return
    # Shared transitions are summed over a whole batch, so in double.
    sums = numpy.zeros(edge.shape) if edge.ndim == 2 else None
    each = None if edge.ndim == 2 else edge
    if node.dtype == numpy.float32:
        _add_features[float](tags, weights, lengths, node, sums, each)
    else:
        _add_features[double](tags, weights, lengths, node, sums, each)
    if sums is not None:
        edge += sums.astype(edge.dtype)


def gram_matrices(xp, tags, lengths, n_tags, shared):
    products = numpy.zeros((lengths.shape[0], tags.shape[0], tags.shape[0]))
    if tags.size:
        _feature_products(tags, lengths, n_tags, shared, products)
    return products


def hildreth(xp, gains, gram, most):
    steps = numpy.zeros_like(gains)
    if gains.size:
        _hildreth(gains, gram, most, steps)
    return steps


def _labelings(unary, lengths, n):
    """Empty sequences have one labeling."""
    scores = numpy.full((lengths.shape[0], n), -numpy.inf, dtype=unary.dtype)
    scores[lengths == 0, 0] = 0
    return numpy.zeros((n, unary.shape[0]), dtype="int32"), scores


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
    batch.threads = threads.count()
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


cdef _mean_field(
    const real[:, ::1] unary, transitions, const int[::1] lengths, int n_iter, gold, value, node,
    sums, each
):
    cdef Batch[real] batch = _batch[real](unary, transitions, lengths)
    cdef const int[::1] gold_tags
    cdef const int* gold_at = NULL
    if gold is not None:
        gold_tags = gold
        gold_at = &gold_tags[0]
    cdef real* none = NULL
    cdef double* no_sums = NULL
    cdef real* value_at = _pointer[real](value, none)
    cdef real* node_at = _pointer[real](node, none)
    cdef double* sums_at = _pointer[double](sums, no_sums)
    cdef real* each_at = _pointer[real](each, none)
    with nogil:
        c_mean_field(batch, n_iter, gold_at, value_at, node_at, sums_at, each_at)


cdef _entropy(const real[:, ::1] unary, transitions, const int[::1] lengths, real[::1] entropies):
    cdef Batch[real] batch = _batch[real](unary, transitions, lengths)
    with nogil:
        c_entropy(batch, &entropies[0])


cdef _pair_marginals(
    const real[:, ::1] unary, transitions, const int[::1] lengths, const int[::1] heads,
    const int[::1] tails, real[:, ::1] node, real[:, ::1] pairs
):
    cdef Batch[real] batch = _batch[real](unary, transitions, lengths)
    with nogil:
        c_pair_marginals(batch, <int>heads.shape[0], &heads[0], &tails[0], &node[0, 0], &pairs[0, 0])


cdef _sample(
    const real[:, ::1] unary, transitions, const int[::1] lengths, const double[:, ::1] uniform,
    int[:, ::1] tags
):
    cdef Batch[real] batch = _batch[real](unary, transitions, lengths)
    with nogil:
        c_sample(batch, <int>uniform.shape[0], &uniform[0, 0], &tags[0, 0])


cdef _n_best(
    const real[:, ::1] unary, transitions, const int[::1] lengths, int n, int width,
    int[:, ::1] tags, real[:, ::1] scores
):
    """By beam search if there is a width, else exact."""
    cdef Batch[real] batch = _batch[real](unary, transitions, lengths)
    with nogil:
        if width:
            c_beam_search(batch, n, width, &tags[0, 0], &scores[0, 0])
        else:
            c_n_best(batch, n, &tags[0, 0], &scores[0, 0])


cdef _best_first(
    const real[:, ::1] unary, transitions, const int[::1] lengths, int[::1] tags,
    real[::1] scores, long long[::1] expanded
):
    cdef Batch[real] batch = _batch[real](unary, transitions, lengths)
    with nogil:
        c_best_first(batch, &tags[0], &scores[0], &expanded[0])


cdef _path_scores(
    const real[:, ::1] unary, transitions, const int[::1] lengths, tags, real[::1] scores
):
    cdef Batch[real] batch = _batch[real](unary, transitions, lengths)
    cdef const int[::1] labeling = numpy.ascontiguousarray(tags)
    with nogil:
        c_path_scores(batch, &labeling[0], &scores[0])


cdef _add_features(
    const int[:, ::1] tags, const real[:, ::1] weights, const int[::1] lengths, real[:, ::1] node,
    sums, each
):
    cdef Labelings[real] y
    y.tags, y.weights, y.lengths = &tags[0, 0], &weights[0, 0], &lengths[0]
    y.n, y.size = <int>tags.shape[0], <int>lengths.shape[0]
    y.n_tags, y.tokens = <int>node.shape[1], <size_t>tags.shape[1]
    cdef real* none = NULL
    cdef double* no_sums = NULL
    cdef double* sums_at = _pointer[double](sums, no_sums)
    cdef real* each_at = _pointer[real](each, none)
    with nogil:
        c_add_features(y, &node[0, 0], sums_at, each_at)


cdef _hildreth(const double[:, ::1] gains, const double[:, :, ::1] gram, double most, double[:, ::1] steps):
    with nogil:
        c_hildreth(<int>gains.shape[0], <int>gains.shape[1], &gains[0, 0], &gram[0, 0, 0], most, &steps[0, 0])


cdef _feature_products(
    const int[:, ::1] tags, const int[::1] lengths, int n_tags, bint shared,
    double[:, :, ::1] products
):
    cdef Labelings[double] y
    y.tags, y.lengths = &tags[0, 0], &lengths[0]
    y.n, y.size = <int>tags.shape[0], <int>lengths.shape[0]
    y.n_tags, y.tokens = n_tags, <size_t>tags.shape[1]
    with nogil:
        c_feature_products(y, shared, &products[0, 0, 0])


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
