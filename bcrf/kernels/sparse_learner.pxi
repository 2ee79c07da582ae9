# The online learner, tag scores under its weights, and the potentials of a second-order chain.

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.limits cimport INT_MAX

cdef int MAX_TAGS = 1_000_000

cdef extern from "cpu/sparse/kernels.hh" namespace "bcrf" nogil:
    cdef cppclass DenseKernels "bcrf::Kernels<float>":
        pass
    const DenseKernels* dense_kernels

    cdef enum class Objective:
        crf
        bcrf
        mean_field
        sapo
        perceptron
        mira

    cdef cppclass Options:
        Objective objective
        int n, n_iter, beam
        bint averaged, adagrad
        double relaxation, rate, decay, l2, l1, n_sequences

    cdef cppclass Table:
        size_t rows()
        const float* row(size_t)

    cdef cppclass Model:
        Model(const Options&, int, int) except +
        Options options
        int tags, chains
        size_t stride
        double scale
        Table v
        int64_t steps
        double sequences_seen
        vector[unsigned char] transitions, start, end
        vector[int] pairs
        float least
        int width()
        size_t first_feature()
        void resize(size_t) except +
        void read(float*) except +
        void write(const float*, size_t) except +

    cdef cppclass Sequences:
        const int* rows
        const int64_t* starts
        const int* gold
        const unsigned char* allowed
        const unsigned char* open

    cdef cppclass PairWeights:
        const float* table
        size_t stride
        const int* rows
        int tags
        float scale

    cdef cppclass CBatch "bcrf::Batch<float>":
        const float* unary
        const float* transitions
        const int* lengths
        int size, tags
        bint shared

    cdef cppclass SparseKernels:
        @staticmethod
        const SparseKernels& get() except +
        void learn(Model&, const Sequences&, const int64_t*, const int*, int, double&, int&) except +
        void descend(Model&, const Sequences&, const int*, int, const float*,
                     const float*) except +
        void correct(const CBatch&, const PairWeights&, const float*, const int*, float, float*,
                     float*) except +
    vector[int] c_shuffled "bcrf::shuffled"(int, uint64_t) except +

cdef extern from "cpu/sparse/scores.hh" namespace "bcrf" nogil:
    void c_score "bcrf::score"(const Weights&, const Sequences&, const int*, int, float*) except +
    void c_score_values "bcrf::score_values"[In](const In*, size_t, int, const Sequences&,
                                                 const double*, const int*, int, double*)

ctypedef fused real:
    float
    double


cdef int _check_rows(const int[::1] rows, const int64_t[::1] starts, int least,
                     size_t n_rows, size_t general) except -1:
    """Raise IndexError for rows outside the weights, which the loops would access unchecked."""
    cdef int64_t n_features = <int64_t>n_rows - <int64_t>general
    cdef Py_ssize_t n = rows.shape[0]
    if not are_ids(rows, least, <int>n_features):
        wrong = next(row for row in rows if not least <= row < n_features)
        raise IndexError(f"feature {wrong} is not among the {n_features} that have weights")
    if starts.shape[0] and starts[starts.shape[0] - 1] > n:
        raise IndexError(f"starts end at {starts[starts.shape[0] - 1]}, but there are {n} rows")
    check_starts("starts", starts, n)
    return 0


cdef int _check_pairs(const int[:, ::1] pairs, size_t n_rows, int n_tags) except -1:
    _check_shape("pairs", pairs, (n_tags + 1, n_tags))
    check_ids("pairs", numpy.ravel(pairs), 0, <int>(n_rows - n_tags - 3))
    return 0


cdef int _check_shape(str name, array, tuple shape) except -1:
    if array is not None and array.shape != shape:
        raise ValueError(f"{name} must be {shape}, got shape {array.shape}")
    return 0


cdef class Learner:
    """Weights of a sparse linear chain, and their online updates, one for each sequence.

    n_tags: T, the number of tags. n_chains: C, the number of chains side by side, which share T by
    C equal parts. Of several chains, gold and masks have C N rows of T / C tags: for each sequence,
    its tokens in the first chain, then in the second and so on.
    """

    cdef Model* c

    def __cinit__(self, str objective, int n_tags, *, int n_chains=1, int n, int n_iter, double relaxation,
                  int beam, bint averaged, bint adagrad, double rate, double decay, double l2, double l1,
                  double n_sequences):
        cdef Options options
        if not 1 <= n_tags <= MAX_TAGS:
            raise ValueError(f"n_tags must be from 1 to {MAX_TAGS}, got {n_tags}")
        if n_chains < 1 or n_tags % n_chains:
            raise ValueError(f"{n_tags} tags cannot be shared by {n_chains} chains")
        if n < 1 or n_iter < 1 or beam < 0:
            raise ValueError(
                f"n and n_iter must be at least 1 and beam at least 0, got {n}, {n_iter} and {beam}"
            )
        objectives = {
            "crf": Objective.crf, "bcrf": Objective.bcrf, "mean_field": Objective.mean_field,
            "sapo": Objective.sapo, "perceptron": Objective.perceptron, "mira": Objective.mira,
        }
        if objective not in objectives:
            raise ValueError(f"objective must be one of {', '.join(objectives)}, got {objective!r}")
        options.objective = objectives[objective]
        options.n = n
        options.n_iter, options.relaxation = n_iter, relaxation
        options.beam = beam
        options.averaged = averaged
        options.adagrad = adagrad
        options.rate = rate
        options.decay = decay
        options.l2 = l2
        options.l1 = l1
        options.n_sequences = n_sequences
        self.c = new Model(options, n_tags // n_chains, n_chains)

    def __dealloc__(self):
        del self.c

    @property
    def n_rows(self):
        """The number of rows of weights."""
        return self.c.v.rows()

    @property
    def stride(self):
        """The number of columns of the weights: the tags, rounded up to whole vectors."""
        return self.c.stride

    def set_n_sequences(self, double n_sequences):
        """Set the number of sequences in a pass, which scales l2, l1 and the decay of the rate."""
        self.c.options.n_sequences = n_sequences

    def resize(self, size_t n_features):
        """Grow to this number of features. New features have weights 0."""
        self.c.resize(n_features)

    def constrain(self, const unsigned char[:, ::1] transitions, const unsigned char[::1] start,
                  const unsigned char[::1] end):
        """Set the allowed transitions, [from, to], and the allowed first and last tags."""
        cdef Py_ssize_t n = self.c.tags
        _check_shape("transitions", transitions, (n, n))
        _check_shape("start", start, (n,))
        _check_shape("end", end, (n,))
        self.c.transitions.assign(&transitions[0, 0], &transitions[0, 0] + n * n)
        self.c.start.assign(&start[0], &start[0] + n)
        self.c.end.assign(&end[0], &end[0] + n)

    def set_pairs(self, const int[:, ::1] pairs, float least):
        """Learn a second-order chain with the objective crf.

        pairs: int32 (T + 1, T), the feature of each pair of tags; the last row is for the start of
        a sequence. least: the smallest first-order marginal of a tag that the chain keeps.
        Raises ValueError for another shape, and a feature without weights.
        """
        cdef Py_ssize_t n = self.c.tags
        _check_pairs(pairs, self.c.v.rows(), self.c.tags)
        self.c.pairs.assign(&pairs[0, 0], &pairs[0, 0] + (n + 1) * n)
        self.c.least = least

    def learn(self, const int[::1] rows, const int64_t[::1] starts, gold, allowed, open,
              const int64_t[::1] offsets, const int[::1] order):
        """Take one step for each sequence of `order`. Return the sum of losses and the step count.

        The count is smaller than len(order) if the learner diverges.

        gold: int32 (N,), -1 for unknown, or None. allowed, open: uint8 (N, T) or None.
        offsets: (B + 1,), the first token of each sequence.
        Raises IndexError for a row without weights, ValueError for arrays that do not fit. After an
        exception, the learner has made some of the steps.
        """
        cdef Sequences data
        cdef const int[::1] gold_ = gold
        cdef const unsigned char[:, ::1] allowed_ = allowed, open_ = open
        cdef double loss = 0
        cdef int done = 0
        cdef Py_ssize_t n = starts.shape[0] - 1
        cdef int tags = self.c.tags
        _check_rows(rows, starts, 0, self.c.v.rows(), self.c.first_feature())
        check_starts("offsets", offsets, min(n, INT_MAX))
        n *= self.c.chains
        check_ids("order", order, 0, <int>(offsets.shape[0] - 1))
        data.rows, data.starts = &rows[0], &starts[0]
        data.gold, data.allowed, data.open = &gold_[0], &allowed_[0, 0], &open_[0, 0]
        if not order.shape[0] or offsets[offsets.shape[0] - 1] == 0:
            return 0.0, order.shape[0]
        if gold is None and allowed is None:
            raise ValueError("gold and allowed are both None: pass one of them")
        _check_shape("gold", gold, (n,))
        if gold is not None:
            check_ids("gold", gold_, -1, tags)
        _check_shape("allowed", allowed, (n, tags))
        _check_shape("open", open, (n, tags))
        global dense_kernels
        dense_kernels = <const DenseKernels*>PyCapsule_GetPointer(
            native.float_kernels(), "bcrf.Kernels<float>"
        )
        with nogil:
            SparseKernels.get().learn(
                self.c[0], data, &offsets[0], &order[0], <int>order.shape[0], loss, done
            )
        return loss, done

    def descend(self, const int[::1] rows, const int64_t[::1] starts, const int[::1] lengths,
                const float[:, ::1] d_unary, const float[:, ::1] d_transitions):
        """Take an AdaGrad step for each token of a batch, and one for the transitions.

        d_unary: (N, T), d_transitions: (T / C, T / C), the gradient of a loss, float32.
        Raises IndexError for a row without weights, ValueError for arrays that do not fit.
        """
        cdef Sequences data
        cdef int tags = self.c.tags
        cdef Py_ssize_t n = starts.shape[0] - 1
        _check_rows(rows, starts, 0, self.c.v.rows(), self.c.first_feature())
        check_lengths(lengths, n)
        _check_shape("d_unary", d_unary, (n, self.c.width()))
        _check_shape("d_transitions", d_transitions, (tags, tags))
        if not n:
            return
        data.rows, data.starts = &rows[0], &starts[0]
        with nogil:
            SparseKernels.get().descend(self.c[0], data, &lengths[0], <int>lengths.shape[0],
                                        &d_unary[0, 0], &d_transitions[0, 0])

    def score(self, const int[::1] rows, const int64_t[::1] starts, const int[::1] lengths):
        """Return tag scores (N, T) and transitions (T / C, T / C), float32, under the current weights."""
        cdef size_t tags = self.c.tags, u
        cdef Weights weights
        weights.table = self.c.v.row(0)
        weights.rows = self.c.v.rows()
        weights.stride = self.c.stride
        weights.tags = self.c.width()
        weights.general = <int>self.c.first_feature()
        unary = _score(weights, rows, starts, lengths)
        transitions = numpy.empty((tags, tags), dtype="float32")
        cdef float[:, ::1] out = transitions
        for u in range(tags):
            memcpy(&out[u, 0], self.c.v.row(u), tags * sizeof(float))
        scale = numpy.float32(self.c.scale)
        unary *= scale
        transitions *= scale
        return unary, transitions

    def read(self):
        """Return the weights, float32 (n_rows, stride): the average over all steps since `write`.

        Without averaging, return the current weights. Columns beyond the tags are 0.
        """
        weights = numpy.empty((self.c.v.rows(), self.c.stride), dtype="float32")
        cdef float[:, ::1] out = weights
        with nogil:
            self.c.read(&out[0, 0])
        return weights

    def write(self, const float[:, ::1] weights):
        """Restart from these weights, float32 (n_rows, stride)."""
        cdef Py_ssize_t stride = self.c.stride, least = self.c.first_feature()
        if weights.shape[1] != stride or weights.shape[0] < least:
            raise ValueError(
                f"weights must have at least {least} rows and {stride} "
                f"columns, got shape {(weights.shape[0], weights.shape[1])}"
            )
        self.c.write(&weights[0, 0], weights.shape[0])


cdef Weights _weights(const float[:, ::1] table, int n_tags, int n_chains) except *:
    """Return weights. Raise ValueError for a table that does not fit."""
    cdef Weights weights
    if n_tags < 1 or n_tags > table.shape[1] or table.shape[1] % 8:
        raise ValueError(
            f"weights must have at least n_tags = {n_tags} columns and a multiple of 8, got "
            f"{table.shape[1]}"
        )
    if n_chains < 1 or n_tags % n_chains:
        raise ValueError(f"{n_tags} tags cannot be shared by {n_chains} chains")
    weights.general = n_tags // n_chains + 3
    if table.shape[0] < weights.general:
        raise ValueError(f"weights must have at least {weights.general} rows, got {table.shape[0]}")
    weights.table = &table[0, 0]
    weights.rows = table.shape[0]
    weights.stride = table.shape[1]
    weights.tags = n_tags
    return weights


cdef _score(Weights weights, const int[::1] rows, const int64_t[::1] starts,
            const int[::1] lengths):
    """Return tag scores, float32 (N, T). Raise for rows and lengths that do not fit."""
    cdef Sequences data
    _check_rows(rows, starts, -1, weights.rows, weights.general)
    check_lengths(lengths, starts.shape[0] - 1)
    unary = numpy.empty((starts.shape[0] - 1, weights.tags), dtype="float32")
    cdef float[:, ::1] out = unary
    data.rows, data.starts = &rows[0], &starts[0]
    with nogil:
        c_score(weights, data, &lengths[0], <int>lengths.shape[0], &out[0, 0])
    return unary


def score(const float[:, ::1] weights, int n_tags, const int[::1] rows,
          const int64_t[::1] starts, const int[::1] lengths, int n_chains=1):
    """Return tag scores, float32 (N, T), under weights (n_rows, stride). n_chains: see `Learner`.

    Rows of -1, unknown features, do not count. Raises IndexError for other rows without weights.
    """
    return _score(_weights(weights, n_tags, n_chains), rows, starts, lengths)


cdef _score_values(const real[:, ::1] weights, int n_tags, const int[::1] rows,
                   const int64_t[::1] starts, const double[::1] values, const int[::1] lengths):
    cdef Sequences data
    if n_tags < 1 or n_tags > weights.shape[1] or weights.shape[0] < n_tags + 3:
        raise ValueError(f"weights {(weights.shape[0], weights.shape[1])} do not fit {n_tags} tags")
    _check_rows(rows, starts, 0, weights.shape[0], n_tags + 3)
    check_lengths(lengths, starts.shape[0] - 1)
    if values is not None:
        _check_shape("values", values, (rows.shape[0],))
    unary = numpy.empty((starts.shape[0] - 1, n_tags))
    cdef double[:, ::1] out = unary
    data.rows, data.starts = &rows[0], &starts[0]
    with nogil:
        c_score_values(&weights[0, 0], weights.shape[1], n_tags, data, &values[0], &lengths[0],
                       <int>lengths.shape[0], &out[0, 0])
    return unary


def score_values(weights, int n_tags, rows, starts, values, lengths):
    """Return tag scores, float64 (N, T), under weights (n_rows, stride), float32 or float64.

    values: float64, of the rows; None if all are 1. Raises IndexError for rows without weights.
    """
    if weights.dtype.char == "f":
        return _score_values[float](weights, n_tags, rows, starts, values, lengths)
    return _score_values[double](weights, n_tags, rows, starts, values, lengths)


def correct(const float[:, ::1] weights, const int[:, ::1] pairs, const float[:, ::1] unary,
            const float[:, ::1] transitions, const int[::1] lengths,
            const float[:, ::1] marginals, const int[::1] best, float least):
    """Return the potentials of a second-order chain, float32 (N, T) and (N, T, T).

    weights: (n_rows, stride). pairs, least: see `Learner.set_pairs`.
    unary, transitions: the potentials (N, T) and (T, T) of the first-order chain. marginals (N, T) and
    best (N,) are its marginals and its best labeling.
    Raises ValueError for arrays that do not fit.
    """
    cdef int n_tags = <int>unary.shape[1]
    cdef Py_ssize_t n = unary.shape[0]
    cdef CBatch batch
    cdef PairWeights pair_weights
    cdef float[:, ::1] new_unary
    cdef float[:, :, ::1] new_transitions
    if n_tags < 1 or weights.shape[0] < n_tags + 3 or weights.shape[1] < n_tags:
        raise ValueError(f"weights {(weights.shape[0], weights.shape[1])} do not fit {n_tags} tags")
    _check_shape("transitions", transitions, (n_tags, n_tags))
    _check_shape("marginals", marginals, (n, n_tags))
    _check_shape("best", best, (n,))
    _check_pairs(pairs, weights.shape[0], n_tags)
    check_ids("best", best, 0, n_tags)
    check_lengths(lengths, n)
    found = numpy.array(unary)
    edges = numpy.empty((n, n_tags, n_tags), dtype="float32")
    edges[...] = transitions
    if not n:
        return found, edges
    new_unary, new_transitions = found, edges
    batch.unary = &unary[0, 0]
    batch.transitions = &transitions[0, 0]
    batch.lengths = &lengths[0]
    batch.size = <int>lengths.shape[0]
    batch.tags = n_tags
    batch.shared = True
    pair_weights.table = &weights[n_tags + 3, 0]
    pair_weights.stride = weights.shape[1]
    pair_weights.rows = &pairs[0, 0]
    pair_weights.tags = n_tags
    pair_weights.scale = 1
    with nogil:
        SparseKernels.get().correct(batch, pair_weights, &marginals[0, 0], &best[0], least,
                                    &new_unary[0, 0], &new_transitions[0, 0, 0])
    return found, edges


def shuffled(int n, uint64_t seed):
    """Return a permutation of 0 to n - 1, int32 (n,), that depends only on the seed."""
    if n < 0:
        raise ValueError(f"n must be at least 0, got {n}")
    cdef vector[int] order = c_shuffled(n, seed)
    return _copy(order.data(), order.size() * 4, "int32")
