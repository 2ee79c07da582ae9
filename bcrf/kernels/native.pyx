# distutils: language = c++
# cython: boundscheck=False, wraparound=False
"""Compiled CPU kernels behind `bcrf.kernels`, which documents their arguments and results.

Each function allocates its outputs and calls a kernel of cpu/kernels.hh. Where an argument is of
the fused type `real`, Cython compiles the function for float and for double and picks one by the
dtype of the arrays. Views raise ValueError for arrays that are not C-contiguous. `&view[0]` is not
read if the view is empty, and is a null pointer if it is None. `bcrf.kernels` has checked types
and shapes; the functions here check lengths and tags, which the kernels use as indices.

faces.pxi has the conversions of `bcrf.torch`. The module `cimport`s neither NumPy nor Thinc nor
spaCy, so a wheel works with any build of these.
"""

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport INFINITY
from libcpp.string cimport string
from libcpp.vector cimport vector

cdef extern from "cpu/kernels.hh" namespace "bcrf" nogil:
    cdef cppclass Batch[In]:
        const In* unary
        const In* transitions
        const int* lengths
        int size, tags
        bint shared
        int threads
        int path

    cdef cppclass Outputs[In]:
        In* value
        In* node
        double* sum
        In* each
        const int* gold
        In* entropies
        In* pairs
        int* labels
        int n
        const int* heads
        const int* tails
        const double* uniform

    cdef cppclass BregmanOptions:
        int n_iter
        double relaxation
        double tolerance
        bint lower
        int unary
        double scale

    cdef cppclass Labelings[In]:
        const int* tags
        const In* weights
        const int* lengths
        int n, size, n_tags
        size_t tokens

    vector[string] c_instruction_sets "bcrf::instruction_sets"() except +
    int c_level "bcrf::level"() except +
    cdef cppclass Kernels[In]:
        @staticmethod
        const Kernels[In]& get() except +
        void sum_product(const Batch[In]&, const Outputs[In]&) except +
        void max_product(const Batch[In]&, int*, In*) except +
        void bregman(const Batch[In]&, const BregmanOptions&, const Outputs[In]&) except +
        void mean_field(const Batch[In]&, int, const Outputs[In]&) except +
        void nbest(const Batch[In]&, int, int*, In*) except +
        void beam_search(const Batch[In]&, int, int, int*, In*) except +
        void dijkstra(const Batch[In]&, int*, In*, long long*) except +
        vector[string] plan(const Request&, const Batch[In]&, double) except +
    cdef cppclass Operation:
        pass
    cdef cppclass Request:
        Operation operation
        bint each, lower
        int n_iter
        double scale
    int forced_path() except +
    const char* c_operation "bcrf::OPERATIONS.at"(int) except +
    const char* c_path "bcrf::PATHS.at"(int) except +
    const int N_OPERATIONS "bcrf::OPERATIONS.size()"
    const int N_PATHS "bcrf::PATHS.size()"
    long long c_path_count "bcrf::path_count"(int, int, int)
    void c_clear_path_counts "bcrf::clear_path_counts"()
    void c_path_scores "bcrf::path_scores"[In](const Batch[In]&, const int*, In*)
    void c_add_features "bcrf::add_features"[In](const Labelings[In]&, In*, double*, In*)
    void c_gram_matrices "bcrf::gram_matrices"[In](const Labelings[In]&, bint, double*) except +
    void c_hildreth "bcrf::hildreth"(int, int, const double*, const double*, double, double*)

ctypedef fused real:
    float
    double

import numpy

from . import threads
from .backend import UNARIES, Result
from .checks cimport are_ids, check_ids, check_lengths, watch_signals

FLOAT32, FLOAT64 = numpy.dtype("float32"), numpy.dtype("float64")

watch_signals()


def instruction_sets():
    return tuple(name.decode() for name in c_instruction_sets())


def instruction_set():
    return instruction_sets()[c_level()]


def float_kernels():
    """A capsule of the kernels of float scores, which sparse.pyx runs."""
    return PyCapsule_New(<void*>&Kernels[float].get(), "bcrf.Kernels<float>", NULL)


def operations():
    return tuple(c_operation(i).decode() for i in range(N_OPERATIONS))


def plan(
    operation, const real[:, ::1] transitions, const int[::1] lengths, bint shared, double range,
    edges, options
):
    cdef int index = operations().index(operation)
    cdef Request request
    cdef Batch[real] batch
    request.operation, request.each = <Operation>index, edges == "each"
    if options is not None:
        request.lower, request.n_iter = options.bound == "lower", options.n_iter
        request.scale = options.scale
    check_lengths(lengths, numpy.sum(lengths, dtype="int64"))
    # A plan does not read scores of tokens and edges.
    batch.unary = batch.transitions = &transitions[0, 0]
    batch.lengths, batch.size = &lengths[0], <int>lengths.shape[0]
    batch.tags, batch.shared, batch.path = <int>transitions.shape[0], shared, forced_path()
    steps = Kernels[real].get().plan(request, batch, range)
    return tuple(step.decode() for step in steps)


def path_counts():
    return {
        (name, dtype, c_path(path).decode()): c_path_count(i, operation, path)
        for i, dtype in enumerate(("float32", "float64"))
        for operation, name in enumerate(operations())
        for path in range(N_PATHS)
        if c_path_count(i, operation, path)
    }


def clear_path_counts():
    c_clear_path_counts()


def sum_product(
    xp, const real[:, ::1] unary, transitions, const int[::1] lengths, edges, marginals
):
    return _run(unary, transitions, lengths, edges, marginals)


def max_product(xp, const real[:, ::1] unary, transitions, const int[::1] lengths):
    cdef Batch[real] batch = _batch(unary, transitions, lengths)
    tags = numpy.zeros(unary.shape[0], "int32")
    scores = _zeros(unary, lengths.shape[0])
    cdef int[::1] tags_ = tags
    cdef real[::1] scores_ = scores
    with nogil:
        Kernels[real].get().max_product(batch, &tags_[0], &scores_[0])
    return tags, scores


def bregman(xp, const real[:, ::1] unary, transitions, const int[::1] lengths, options, edges):
    return _run(unary, transitions, lengths, edges, True, options)


def mean_field(xp, const real[:, ::1] unary, transitions, const int[::1] lengths, int n_iter):
    return _run(unary, transitions, lengths, "none", True, None, n_iter)


def mean_field_loss(
    xp, const real[:, ::1] unary, transitions, const int[::1] lengths, const int[::1] gold,
    int n_iter
):
    check_ids("gold", gold, -1, <int>unary.shape[1])
    edges = "sum" if transitions.ndim == 2 else "each"
    result = _run(unary, transitions, lengths, edges, True, None, n_iter, gold)
    # The loss does not depend on the scores of forbidden transitions.
    result.edges[transitions == -numpy.inf] = 0
    return result


def entropy(xp, const real[:, ::1] unary, transitions, const int[::1] lengths):
    cdef Batch[real] batch = _batch(unary, transitions, lengths)
    entropies = _zeros(unary, lengths.shape[0])
    cdef real[::1] entropies_ = entropies
    cdef Outputs[real] outputs
    outputs.entropies = &entropies_[0]
    with nogil:
        Kernels[real].get().sum_product(batch, outputs)
    return entropies


def pair_marginals(
    xp, const real[:, ::1] unary, transitions, const int[::1] lengths, const int[::1] heads,
    const int[::1] tails
):
    cdef Batch[real] batch = _batch(unary, transitions, lengths)
    cdef Outputs[real] outputs
    check_ids("heads", heads, 0, batch.tags)
    check_ids("tails", tails, 0, batch.tags)
    node = _zeros(unary, (unary.shape[0], unary.shape[1]))
    pairs = _zeros(unary, (unary.shape[0], heads.shape[0]))
    cdef real[:, ::1] node_ = node, pairs_ = pairs
    outputs.node, outputs.pairs, outputs.n = &node_[0, 0], &pairs_[0, 0], <int>heads.shape[0]
    outputs.heads, outputs.tails = &heads[0], &tails[0]
    with nogil:
        Kernels[real].get().sum_product(batch, outputs)
    return node, pairs


def sample(
    xp, const real[:, ::1] unary, transitions, const int[::1] lengths, const double[:, ::1] uniform
):
    cdef Batch[real] batch = _batch(unary, transitions, lengths)
    tags = numpy.zeros((uniform.shape[0], uniform.shape[1]), "int32")
    cdef int[:, ::1] tags_ = tags
    cdef Outputs[real] outputs
    outputs.labels, outputs.uniform, outputs.n = &tags_[0, 0], &uniform[0, 0], <int>uniform.shape[0]
    with nogil:
        Kernels[real].get().sum_product(batch, outputs)
    return tags


def nbest(xp, const real[:, ::1] unary, transitions, const int[::1] lengths, int n):
    cdef Batch[real] batch = _batch(unary, transitions, lengths)
    tags, scores = _no_labelings(unary, lengths, n)
    cdef int[:, ::1] tags_ = tags
    cdef real[:, ::1] scores_ = scores
    with nogil:
        Kernels[real].get().nbest(batch, n, &tags_[0, 0], &scores_[0, 0])
    return tags, scores


def beam_search(
    xp, const real[:, ::1] unary, transitions, const int[::1] lengths, int n, int width
):
    cdef Batch[real] batch = _batch(unary, transitions, lengths)
    tags, scores = _no_labelings(unary, lengths, n)
    cdef int[:, ::1] tags_ = tags
    cdef real[:, ::1] scores_ = scores
    with nogil:
        Kernels[real].get().beam_search(batch, n, width, &tags_[0, 0], &scores_[0, 0])
    return tags, scores


def dijkstra(xp, const real[:, ::1] unary, transitions, const int[::1] lengths):
    cdef Batch[real] batch = _batch(unary, transitions, lengths)
    tags = numpy.zeros(unary.shape[0], "int32")
    scores = _zeros(unary, lengths.shape[0])
    expanded = numpy.zeros(lengths.shape[0], numpy.longlong)
    cdef int[::1] tags_ = tags
    cdef real[::1] scores_ = scores
    cdef long long[::1] expanded_ = expanded
    with nogil:
        Kernels[real].get().dijkstra(batch, &tags_[0], &scores_[0], &expanded_[0])
    return tags, scores, expanded


def path_scores(xp, const real[:, ::1] unary, transitions, const int[::1] lengths, tags):
    cdef Batch[real] batch = _batch(unary, transitions, lengths)
    cdef const int[::1] tags_ = tags
    check_ids("tags", tags_, 0, batch.tags)
    scores = _zeros(unary, lengths.shape[0])
    cdef real[::1] scores_ = scores
    with nogil:
        c_path_scores(batch, &tags_[0], &scores_[0])
    return scores


def labeling_loss(
    xp, const real[:, ::1] unary, transitions, const int[::1] lengths, const int[::1] tags, options
):
    """Return None for unknown or forbidden tags, and for tags out of range."""
    if not are_ids(tags, 0, <int>unary.shape[1]):
        return None
    edges = "sum" if transitions.ndim == 2 else "each"
    result = _run(unary, transitions, lengths, edges, True, options, -1, tags)
    cdef const real[::1] value = result.value
    return result if _are_finite(&value[0], value.shape[0]) else None


def add_features(
    xp, const int[:, ::1] tags, const real[:, ::1] weights, const int[::1] lengths,
    real[:, ::1] node, edge
):
    cdef Labelings[real] labelings = _labelings(tags, weights, lengths, <int>node.shape[1])
    # Float32 sums over a whole batch would lose digits, so shared transitions add up in double.
    sums = numpy.zeros(edge.shape) if edge.ndim == 2 else None
    cdef double[:, ::1] sums_ = sums
    cdef real[:, :, ::1] each = None if edge.ndim == 2 else edge
    with nogil:
        c_add_features(labelings, &node[0, 0], &sums_[0, 0], &each[0, 0, 0])
    if sums is not None:
        edge += sums.astype(edge.dtype)


def gram_matrices(xp, const int[:, ::1] tags, const int[::1] lengths, int n_tags, bint shared):
    cdef const double[:, ::1] weights = None
    cdef Labelings[double] labelings = _labelings(tags, weights, lengths, n_tags)
    products = numpy.zeros((lengths.shape[0], tags.shape[0], tags.shape[0]))
    cdef double[:, :, ::1] products_ = products
    with nogil:
        c_gram_matrices(labelings, shared, &products_[0, 0, 0])
    return products


def hildreth(xp, const double[:, ::1] gains, const double[:, :, ::1] gram, double most):
    cdef int size = <int>gains.shape[0], n = <int>gains.shape[1]
    steps = numpy.zeros((size, n))
    cdef double[:, ::1] steps_ = steps
    with nogil:
        c_hildreth(size, n, &gains[0, 0], &gram[0, 0, 0], most, &steps_[0, 0])
    return steps


cdef inline bint _are_finite(const real* x, Py_ssize_t n) noexcept nogil:
    """Return whether no number is infinity or NaN. -inf is a score, that of what is forbidden."""
    cdef bint found = True
    cdef Py_ssize_t t
    for t in range(n):
        found &= x[t] < INFINITY
    return found


cdef Batch[real] _batch(const real[:, ::1] unary, transitions, const int[::1] lengths):
    """Point to the arrays of the caller, which must outlive the batch."""
    cdef Batch[real] batch
    check_lengths(lengths, unary.shape[0])
    cdef const real[:, ::1] shared
    cdef const real[:, :, ::1] each
    batch.shared = transitions.ndim == 2
    if batch.shared:
        shared = transitions
        batch.transitions = &shared[0, 0]
    else:
        each = transitions
        batch.transitions = &each[0, 0, 0]
    batch.unary = &unary[0, 0]
    batch.lengths = &lengths[0]
    batch.size = <int>lengths.shape[0]
    batch.tags = <int>unary.shape[1]
    batch.threads = threads.chosen or threads.count()
    batch.path = forced_path()
    return batch


cdef BregmanOptions _bregman_options(options):
    cdef BregmanOptions found
    found.n_iter = options.n_iter
    found.relaxation = 0 if options.relaxation is None else options.relaxation
    found.tolerance = -1 if options.tolerance is None else options.tolerance
    found.lower = options.bound == "lower"
    found.unary = UNARIES.index(options.unary)
    found.scale = options.scale
    return found


cdef Labelings[real] _labelings(
    const int[:, ::1] tags, const real[:, ::1] weights, const int[::1] lengths, int n_tags
) except *:
    """Point to the arrays, which must outlive the labelings. weights may be None."""
    cdef Labelings[real] labelings
    cdef Py_ssize_t k
    check_lengths(lengths, tags.shape[1])
    for k in range(tags.shape[0]):
        check_ids("tags", tags[k], 0, n_tags)
    labelings.tags, labelings.weights, labelings.lengths = &tags[0, 0], &weights[0, 0], &lengths[0]
    labelings.n, labelings.size = <int>tags.shape[0], <int>lengths.shape[0]
    labelings.n_tags, labelings.tokens = n_tags, <size_t>tags.shape[1]
    return labelings


cdef _run(
    const real[:, ::1] unary, transitions, const int[::1] lengths, edges, marginals, options=None,
    int n_iter=-1, const int[::1] gold=None
):
    """Run mean field for n_iter >= 0 updates, a Bregman CRF that has options, or else a CRF.

    With gold, the result is its loss and the gradient.
    """
    cdef Batch[real] batch = _batch(unary, transitions, lengths)
    cdef BregmanOptions c_options
    cdef bint is_bregman = options is not None
    if is_bregman:
        c_options = _bregman_options(options)
    n, t, dtype = unary.shape[0], unary.shape[1], FLOAT32 if real is float else FLOAT64
    value = numpy.zeros(lengths.shape[0], dtype)
    # The kernels write the marginals of every token.
    node = numpy.empty((n, t), dtype) if marginals else None
    # Float32 sums over a whole batch would lose digits.
    total = numpy.zeros((t, t)) if edges == "sum" else None
    each = numpy.zeros((n, t, t), dtype) if edges == "each" else None
    cdef real[::1] value_ = value
    cdef real[:, ::1] node_ = node
    cdef double[:, ::1] total_ = total
    cdef real[:, :, ::1] each_ = each
    cdef Outputs[real] outputs
    outputs.value, outputs.node, outputs.gold = &value_[0], &node_[0, 0], &gold[0]
    outputs.sum, outputs.each = &total_[0, 0], &each_[0, 0, 0]
    with nogil:
        if is_bregman:
            Kernels[real].get().bregman(batch, c_options, outputs)
        elif n_iter >= 0:
            Kernels[real].get().mean_field(batch, n_iter, outputs)
        else:
            Kernels[real].get().sum_product(batch, outputs)
    return Result(value, node, each if total is None else total.astype(dtype))


cdef _zeros(const real[:, ::1] unary, shape):
    """Return zeros with the dtype of `unary`."""
    return numpy.zeros(shape, FLOAT32 if real is float else FLOAT64)


cdef _no_labelings(const real[:, ::1] unary, const int[::1] lengths, int n):
    """Return tags and scores of empty n-best lists. An empty sequence has one labeling."""
    scores = _zeros(unary, (lengths.shape[0], n))
    scores.fill(-numpy.inf)
    scores[numpy.equal(lengths, 0), 0] = 0
    return numpy.zeros((n, unary.shape[0]), "int32"), scores


include "faces.pxi"
