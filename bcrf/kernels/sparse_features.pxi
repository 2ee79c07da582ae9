# Feature templates, the dictionary of their keys, and tag scores under fixed weights.

cdef int MAX_OFFSET = 1_000_000
cdef size_t WORD_SCORES = 64_000_000

cdef extern from "cpu/sparse/kernels.hh" namespace "bcrf" nogil:
    cdef cppclass CDictionary "bcrf::Dictionary":
        size_t size()
        const uint64_t* keys()
        void assign(const uint64_t*, size_t) except +
        void count(const uint64_t*, size_t) except +
        void keep(int64_t) except +
        void find(const uint64_t*, size_t, bint, int*) except +

    cdef cppclass Part:
        int column, offset

    cdef cppclass TokenValues:
        const uint64_t* values
        int singles
        const int* words
        const int64_t* bag_starts
        const uint64_t* bag_values
        int bags

    cdef cppclass CExtractor "bcrf::Extractor":
        void add(uint64_t, const vector[Part]&) except +
        void extract(const TokenValues&, const int*, int, vector[uint64_t]&,
                     vector[int64_t]&) except +

cdef extern from "cpu/sparse/scores.hh" namespace "bcrf" nogil:
    cdef cppclass Weights:
        const float* table
        size_t rows, stride
        int tags, general

    cdef cppclass WordBatch:
        TokenValues tokens
        const uint64_t* words
        const int* lengths
        int size, start "from", to

    cdef cppclass CWordScores "bcrf::WordScores":
        CWordScores(size_t) except +
        void add(uint64_t, const vector[Part]&, bint) except +
        void score(const WordBatch&, CDictionary&, const Weights&, float*) except +


cdef class Dictionary:
    """Map from feature keys, uint64, to rows of the weight table, 0, 1, ..

    >>> import numpy as np
    >>> from bcrf.linear import Dictionary
    >>> dictionary = Dictionary()
    >>> dictionary.find(np.array([7, 9, 7], "uint64"), True)  # True adds new keys
    array([0, 1, 0], dtype=int32)
    >>> dictionary.find(np.array([9, 8], "uint64"))  # -1: unknown
    array([ 1, -1], dtype=int32)
    """

    cdef CDictionary c

    def __len__(self):
        return self.c.size()

    def count(self, const uint64_t[::1] keys):
        """Increment the count of each key."""
        self.c.count(&keys[0], keys.shape[0])

    def keep(self, int64_t min_freq):
        """Keep the keys with at least this count, and number them by falling count."""
        self.c.keep(min_freq)

    def find(self, const uint64_t[::1] keys, bint add=False):
        """Return the rows of the keys, int32. An unknown key gets a new row if `add`, else -1."""
        rows = numpy.empty(keys.shape[0], dtype="int32")
        cdef int[::1] out = rows
        self.c.find(&keys[0], keys.shape[0], add, &out[0])
        return rows

    @property
    def keys(self):
        """The keys, uint64, by row."""
        return _copy(self.c.keys(), self.c.size() * sizeof(uint64_t), "uint64")

    @keys.setter
    def keys(self, const uint64_t[::1] keys):
        self.c.assign(&keys[0], keys.shape[0])


cdef vector[Part] _parts(spec) except *:
    """Return the parts of a template, pairs (column, offset)."""
    cdef vector[Part] parts
    cdef Part part
    for column, offset in spec:
        if column < 0 or not -MAX_OFFSET <= offset <= MAX_OFFSET:
            raise ValueError(
                f"a part must have a column of at least 0 and an offset of at most "
                f"{MAX_OFFSET}, got {column} and {offset}"
            )
        part.column = column
        part.offset = offset
        parts.push_back(part)
    return parts


cdef int _n_columns(spec) except -1:
    """Return the number of columns that a template needs."""
    return max([column + 1 for column, _ in spec], default=0)


cdef TokenValues _tokens(tuple arrays, int n_columns) except *:
    """Point to the arrays of `Extractor.extract`. Raise for arrays that do not fit."""
    cdef TokenValues tokens
    cdef const uint64_t[:, ::1] values
    cdef const int[::1] words, lengths
    cdef const int64_t[::1] bag_starts
    cdef const uint64_t[::1] bag_values
    cdef int bags
    cdef Py_ssize_t i, at
    values, words, bag_starts, bag_values, bags, lengths = arrays
    check_lengths(lengths, values.shape[0])
    if words.shape[0] != values.shape[0]:
        raise ValueError(f"there are {values.shape[0]} values, but {words.shape[0]} words")
    if bags < 0 or n_columns > values.shape[1] + bags:
        raise ValueError(
            f"the templates need {n_columns} columns, but there are {values.shape[1]} "
            f"values and {bags} bags"
        )
    if bags:
        check_ids("words", words, 0, <int>((bag_starts.shape[0] - 1) // bags))
        # Only the bags of these words: a cache holds those of all earlier words.
        for i in range(words.shape[0]):
            at = words[i] * <Py_ssize_t>bags
            check_starts("bag_starts", bag_starts[at : at + bags + 1], bag_values.shape[0])
    tokens.singles = <int>values.shape[1]
    tokens.bags = bags
    tokens.values, tokens.words = &values[0, 0], &words[0]
    tokens.bag_starts, tokens.bag_values = &bag_starts[0], &bag_values[0]
    return tokens


cdef class Extractor:
    """Feature templates. A template is a seed and its parts, pairs (column, offset)."""

    cdef CExtractor c
    cdef int n_columns

    def __init__(self, templates):
        for seed, spec in templates:
            self.c.add(seed, _parts(spec))
            self.n_columns = max(self.n_columns, _n_columns(spec))

    def extract(self, tuple arrays not None):
        """Return feature keys, uint64, and their starts, int64 (N + 1,).

        arrays: values, words, bag_starts, bag_values, bags and lengths.
        values: (N, singles), single values, 0 for none. Bag `column` of token i has the values
        bag_values[bag_starts[k]:bag_starts[k + 1]], where k = words[i] * bags + column.
        """
        cdef TokenValues tokens = _tokens(arrays, self.n_columns)
        cdef const int[::1] lengths = arrays[5]
        cdef vector[uint64_t] keys
        cdef vector[int64_t] starts
        starts.push_back(0)
        keys.reserve(len(arrays[0]) * 24)
        # `extract` does not change `c`, so several threads can run it at once.
        with nogil:
            self.c.extract(tokens, &lengths[0], <int>lengths.shape[0], keys, starts)
        found = _copy(keys.data(), keys.size() * 8, "uint64")
        return found, _copy(starts.data(), starts.size() * 8, "int64")


cdef class WordScores:
    """Templates, and tag scores under fixed weights.

    Equal words with equal values share the sums of the weights of their features.

    templates: see `Extractor`. n_of_word: the number of columns that the word and the single values
    determine; the templates of the others share nothing. n_bytes: memory for the sums, above which
    the object forgets them.
    """

    cdef CWordScores* c
    cdef int n_columns

    def __cinit__(self, templates, int n_of_word, size_t n_bytes=WORD_SCORES):
        self.c = new CWordScores(n_bytes)
        for seed, spec in templates:
            self.c.add(seed, _parts(spec), _n_columns(spec) <= n_of_word)
            self.n_columns = max(self.n_columns, _n_columns(spec))

    def __dealloc__(self):
        del self.c

    def score(self, Dictionary dictionary not None, const float[:, ::1] weights, int n_tags,
              int n_chains, const uint64_t[::1] orths, tuple arrays not None):
        """Return tag scores, float32 (N, T), under weights (n_rows, stride).

        n_tags: T, the number of tags of all chains. n_chains: see `Learner`.
        All calls must have the same dictionary and weights. Neither may change during a call, which
        does not hold the GIL.

        orths: uint64 (N,), the hash of each word. arrays: see `Extractor.extract`.
        Unknown features do not count. Raises IndexError for features without weights.
        """
        cdef WordBatch batch
        cdef const int[::1] lengths = arrays[5]
        cdef Weights table = _weights(weights, n_tags, n_chains)
        if orths.shape[0] != len(arrays[1]):
            raise ValueError(f"there are {len(arrays[1])} words, but {orths.shape[0]} hashes")
        batch.tokens = _tokens(arrays, self.n_columns)
        batch.words, batch.lengths, batch.size = &orths[0], &lengths[0], <int>lengths.shape[0]
        unary = numpy.empty((orths.shape[0], n_tags), dtype="float32")
        cdef float[:, ::1] out = unary
        with nogil:
            self.c.score(batch, dictionary.c, table, &out[0, 0])
        return unary
