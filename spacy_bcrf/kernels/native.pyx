# distutils: language = c++
# cython: boundscheck=False, wraparound=False
"""Compiled CPU kernels behind `spacy_bcrf.kernels`, which documents their arguments and results.

Each function allocates its outputs and calls a kernel of cpu/kernels.hh. Where an argument is of
the fused type `real`, Cython compiles the function for float and for double and picks one by the
dtype of the arrays. Views raise ValueError for arrays that are not C-contiguous. `&view[0]` is not
read if the view is empty, and is a null pointer if it is None. `spacy_bcrf.kernels` has checked types
and shapes; the functions here check lengths and tags, which the kernels use as indices.

The module `cimport`s neither NumPy nor Thinc nor spaCy, so a wheel works with any build of these.
"""

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
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
        vector[string] plan(Operation, const Batch[In]&, double) except +
    cdef cppclass Operation:
        pass
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
    operation, const real[:, ::1] transitions, const int[::1] lengths, bint shared, double range
):
    cdef int index = operations().index(operation)
    cdef Batch[real] batch
    check_lengths(lengths, numpy.sum(lengths, dtype="int64"))
    # A plan does not read scores of tokens and edges.
    batch.unary = batch.transitions = &transitions[0, 0]
    batch.lengths, batch.size = &lengths[0], <int>lengths.shape[0]
    batch.tags, batch.shared, batch.path = <int>transitions.shape[0], shared, forced_path()
    steps = Kernels[real].get().plan(<Operation>index, batch, range)
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
    cdef Batch[real] batch = _batch(unary, transitions, lengths)
    arrays = _arrays(unary, lengths, edges, marginals)
    cdef Outputs[real] outputs = _outputs(unary, arrays)
    with nogil:
        Kernels[real].get().sum_product(batch, outputs)
    return _result(unary, arrays)


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
    cdef Batch[real] batch = _batch(unary, transitions, lengths)
    arrays = _arrays(unary, lengths, edges, True)
    cdef Outputs[real] outputs = _outputs(unary, arrays)
    cdef BregmanOptions c_options = _bregman_options(options)
    with nogil:
        Kernels[real].get().bregman(batch, c_options, outputs)
    return _result(unary, arrays)


def mean_field(xp, const real[:, ::1] unary, transitions, const int[::1] lengths, int n_iter):
    return _mean_field(unary, transitions, lengths, None, n_iter, "none")


def mean_field_loss(
    xp, const real[:, ::1] unary, transitions, const int[::1] lengths, gold, int n_iter
):
    edges = "sum" if transitions.ndim == 2 else "each"
    result = _mean_field(unary, transitions, lengths, gold, n_iter, edges)
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
    cdef Batch[real] batch = _batch(unary, transitions, lengths)
    cdef Py_ssize_t i
    if not are_ids(tags, batch.tags):
        return None
    arrays = _arrays(unary, lengths, "sum" if batch.shared else "each", True)
    cdef Outputs[real] outputs = _outputs(unary, arrays)
    outputs.gold = &tags[0]
    cdef BregmanOptions c_options
    cdef bint is_bregman = options is not None
    if is_bregman:
        c_options = _bregman_options(options)
    with nogil:
        if is_bregman:
            Kernels[real].get().bregman(batch, c_options, outputs)
        else:
            Kernels[real].get().sum_product(batch, outputs)
    for i in range(lengths.shape[0]):
        if not outputs.value[i] < INFINITY:
            return None
    return _result(unary, arrays)


def extent(xp, const int[::1] ids):
    cdef int low = 0, high = -1
    cdef Py_ssize_t i, n = ids.shape[0]
    if n:
        low = high = ids[0]
    for i in range(n):
        low = min(low, ids[i])
        high = max(high, ids[i])
    return low, high


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


# Padded tensors (B, L, T) of `spacy_bcrf.torch`, which checks their shapes.


def take_padded(
    const real[:, :, :] scores, const real[:, ::1] transitions, const real[::1] start,
    const real[::1] end, const unsigned char[:, :] mask, const int64_t[:, :] tags
):
    """Return the scores (N, T) of the tokens, start and end added, the lengths, and int32 tags.

    start, end, mask and tags may be None. The tag -100, unknown, becomes -1. Returns None if a tag
    or a shape is wrong, or a sequence has no token or a hole: the caller says where.
    """
    cdef Py_ssize_t size = scores.shape[0], steps = scores.shape[1], n_tags = scores.shape[2]
    cdef Py_ssize_t b, i, n = 0
    cdef bint wrong = scores.strides[2] != sizeof(real)
    wrong |= transitions.shape[0] != n_tags or transitions.shape[1] != n_tags
    wrong |= start is not None and start.shape[0] != n_tags
    wrong |= end is not None and end.shape[0] != n_tags
    wrong |= mask is not None and (mask.shape[0] != size or mask.shape[1] != steps)
    wrong |= tags is not None and (tags.shape[0] != size or tags.shape[1] != steps)
    if wrong:
        return None
    cdef int64_t tag
    cdef vector[Py_ssize_t] first = vector[Py_ssize_t](size)
    lengths = numpy.empty(size, "int32")
    cdef int[::1] lengths_ = lengths
    for b in range(size):
        i = steps
        if mask is not None:
            i = 0
            while i < steps and mask[b, i]:
                i += 1
            for k in range(i, steps):
                wrong |= mask[b, k]
        wrong |= i == 0
        first[b], lengths_[b] = n, <int>i
        n += i
    if wrong:
        return None
    unary = numpy.empty((n, n_tags), FLOAT32 if real is float else FLOAT64)
    gold = None if tags is None else numpy.empty(n, "int32")
    cdef real[:, ::1] unary_ = unary
    cdef int[::1] gold_ = gold
    cdef real* rows = &unary_[0, 0]
    cdef size_t row_size = n_tags * sizeof(real)
    if scores.strides[1] == <Py_ssize_t>row_size:
        for b in range(size):
            memcpy(rows + first[b] * n_tags, &scores[b, 0, 0], lengths_[b] * row_size)
    else:
        for i in range(steps):
            for b in range(size):
                if i < lengths_[b]:
                    memcpy(rows + (first[b] + i) * n_tags, &scores[b, i, 0], row_size)
    for b in range(size):
        n = first[b] + lengths_[b] - 1
        if start is not None:
            _add(&start[0], rows + first[b] * n_tags, n_tags)
        if end is not None:
            _add(&end[0], rows + n * n_tags, n_tags)
        if tags is not None:
            for i in range(lengths_[b]):
                tag = tags[b, i]
                wrong |= not (0 <= tag < n_tags or tag == -100)
                gold_[first[b] + i] = -1 if tag == -100 else <int>tag
    return None if wrong else (unary, lengths, gold)


def pad_rows(
    const real[:, ::1] rows, const int[::1] lengths, real[:, :, :] padded, real[::1] first,
    real[::1] last
):
    """Copy rows (N, T) to padded (B, L, T), with zeros for its padding.

    Adds the rows of first and last tokens to `first` and `last` (T,).
    """
    check_lengths(lengths, rows.shape[0])
    cdef Py_ssize_t b, i, n, n_tags = rows.shape[1], steps = padded.shape[1]
    cdef size_t size = n_tags * sizeof(real)
    cdef const real* row = &rows[0, 0]
    for b in range(padded.shape[0]):
        n = lengths[b]
        if padded.strides[1] == <Py_ssize_t>size:
            memcpy(&padded[b, 0, 0], row, n * size)
            memset(&padded[b, 0, 0] + n * n_tags, 0, (steps - n) * size)
        else:
            for i in range(n):
                memcpy(&padded[b, i, 0], row + i * n_tags, size)
            for i in range(n, steps):
                memset(&padded[b, i, 0], 0, size)
        if n:
            _add(row, &first[0], n_tags)
            row += n * n_tags
            _add(row - n_tags, &last[0], n_tags)


cdef inline void _add(const real* x, real* sums, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t t
    for t in range(n):
        sums[t] += x[t]


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


cdef _mean_field(
    const real[:, ::1] unary, transitions, const int[::1] lengths, gold, int n_iter, edges
):
    """Return the loss of `gold` and its gradient; without gold, the value and the marginals."""
    cdef Batch[real] batch = _batch(unary, transitions, lengths)
    cdef const int[::1] gold_ = gold
    if gold is not None:
        check_ids("gold", gold_, -1, batch.tags)
    arrays = _arrays(unary, lengths, edges, True)
    cdef Outputs[real] outputs = _outputs(unary, arrays)
    outputs.gold = &gold_[0]
    with nogil:
        Kernels[real].get().mean_field(batch, n_iter, outputs)
    return _result(unary, arrays)


cdef _zeros(const real[:, ::1] unary, shape):
    """Return zeros with the dtype of `unary`."""
    return numpy.zeros(shape, FLOAT32 if real is float else FLOAT64)


cdef _no_labelings(const real[:, ::1] unary, const int[::1] lengths, int n):
    """Return tags and scores of empty n-best lists. An empty sequence has one labeling."""
    scores = _zeros(unary, (lengths.shape[0], n))
    scores.fill(-numpy.inf)
    scores[numpy.equal(lengths, 0), 0] = 0
    return numpy.zeros((n, unary.shape[0]), "int32"), scores


cdef _arrays(const real[:, ::1] unary, const int[::1] lengths, edges, marginals):
    """Return arrays for the outputs of a kernel: value, node, sum and each."""
    dtype = FLOAT32 if real is float else FLOAT64
    n, t = unary.shape[0], unary.shape[1]
    return (
        numpy.zeros(lengths.shape[0], dtype),
        # The kernels write the marginals of every token.
        numpy.empty((n, t), dtype) if marginals else None,
        # Float32 sums over a whole batch would lose digits.
        numpy.zeros((t, t)) if edges == "sum" else None,
        numpy.zeros((n, t, t), dtype) if edges == "each" else None,
    )


cdef Outputs[real] _outputs(const real[:, ::1] unary, arrays):
    """Point to the arrays, which must outlive the outputs. There is no gold."""
    cdef Outputs[real] outputs
    cdef real[::1] value
    cdef real[:, ::1] node
    cdef double[:, ::1] total
    cdef real[:, :, ::1] each
    value, node, total, each = arrays
    outputs.value, outputs.node = &value[0], &node[0, 0]
    outputs.sum, outputs.each = &total[0, 0], &each[0, 0, 0]
    outputs.gold = NULL
    return outputs


cdef _result(const real[:, ::1] unary, arrays):
    value, node, total, each = arrays
    if total is not None:
        each = total.astype(FLOAT32 if real is float else FLOAT64)
    return Result(value, node, each)
