# Labelings of tokens that arrive in pieces.

cdef extern from "cpu/sparse/stream.hh" namespace "bcrf" nogil:
    cdef cppclass Mark "bcrf::StreamTokens::Mark":
        int kind, size, width

    cdef cppclass CTokens "bcrf::StreamTokens":
        int singles, bags
        vector[uint64_t] hashes, values, bag_values
        vector[int64_t] bag_starts
        vector[Mark] marks
        size_t size()
        void add(const CTokens&) except +
        void keep(size_t, size_t) except +
        TokenValues view()

    cdef cppclass CRules "bcrf::StreamRules":
        int chains, tags, outside
        bint in_float, posterior
        double scale
        vector[double] edges
        vector[char] closed, starts, goes_on
        void prepare() except +

    cdef cppclass CSpan "bcrf::StreamSpan":
        int chain, tag
        long long start, end

    cdef cppclass CStream "bcrf::Stream":
        CStream(shared_ptr[CRules]) except +
        long long length()
        long long first()
        long long forced()
        long long final()
        long long undecided()
        int tag(long long)
        long long start(long long)
        long long end(long long)
        void extend(const float*, const CTokens&, size_t, size_t, bint, long long) except +
        vector[CSpan] take_complete()
        void drop(long long)
        void bound(int, long long, const vector[int]&, int, double, double&, double&) except +


cdef class StreamTokens:
    """Tokens as `Stream` takes them.

    words: each with its blank. hashes: uint64 (N,), of the words. arrays: see `Extractor.extract`.
    marks: uint64 (N, 4), the characters of a token, those of its blank, and the kind: two columns of
    1 or another number.
    """

    cdef CTokens c
    cdef readonly list words

    def __init__(self, list words not None, const uint64_t[::1] hashes, tuple arrays not None,
                 const uint64_t[:, ::1] marks):
        cdef TokenValues given = _tokens(arrays, 0)
        cdef size_t i, k, n = len(words), bags = given.bags
        cdef int64_t start, stop
        cdef Mark mark
        if hashes.shape[0] != n or marks.shape[0] != n or marks.shape[1] != 4 or len(arrays[0]) != n:
            raise ValueError(f"there are {n} words, but {len(arrays[0])} values")
        self.words, self.c.singles, self.c.bags = words, given.singles, given.bags
        self.c.values.assign(given.values, given.values + n * given.singles)
        for i in range(n):
            self.c.hashes.push_back(hashes[i])
            mark.size, mark.width = marks[i, 0], marks[i, 0] + marks[i, 1]
            mark.kind = (marks[i, 2] == 1) + 2 * (marks[i, 3] == 1)
            self.c.marks.push_back(mark)
            for k in range(given.words[i] * bags, (given.words[i] + 1) * bags):
                start, stop = given.bag_starts[k], given.bag_starts[k + 1]
                self.c.bag_values.insert(self.c.bag_values.end(), given.bag_values + start,
                                         given.bag_values + stop)
                self.c.bag_starts.push_back(self.c.bag_values.size())


cdef class StreamRules:
    """What all streams of a chain have in common.

    transitions: (4, T, T) float32 or float64, by the kind of the first token. closed: bool (3, 4,
    C, T), whether the first, another or the last token cannot have a tag, by its kind: 0 to 3, see
    `StreamTokens`. starts, goes_on: bool (T,), whether a tag starts a span or is that of none, and
    whether its span may go on. outside: the tag of no span, -1 if all tags are spans of one token.
    temperature: of the posterior, 0 if `bound` will not be asked.
    """

    cdef shared_ptr[CRules] c

    def __cinit__(self, transitions, closed, starts, goes_on, int outside, double temperature):
        self.c = make_shared[CRules]()
        cdef CRules* rules = self.c.get()
        _, _, rules.chains, rules.tags = closed.shape
        rules.outside, rules.in_float = outside, transitions.dtype == "float32"
        rules.posterior, rules.scale = temperature > 0, 1 / temperature if temperature else 1
        rules.edges, rules.closed = transitions.ravel().tolist(), closed.ravel().tolist()
        rules.starts, rules.goes_on = starts.tolist(), goes_on.tolist()
        rules.prepare()


cdef class Stream:
    """The best labeling of a text whose tokens arrive in pieces, and what of it is final.

    dictionary, weights: see `WordScores.score`. before, after: the number of tokens, 1 or more, around
    one that its scores depend on. Those of the first and of the last token differ.

    length: the number of tokens. final: of those whose tags are final in all chains. undecided: the
    first token that may be in an incomplete span. first: the first token that is not dropped.
    forced: the number of tags that `max_lag` has decided.
    """

    cdef CStream* c
    cdef CTokens window  # from `before` tokens before the first one without a tag on
    cdef size_t start  # of the first token in the window without a tag
    cdef vector[float] scores
    cdef Dictionary dictionary
    cdef const float[:, ::1] weights
    cdef size_t before, after
    cdef const CRules* rules

    def __cinit__(self, Dictionary dictionary not None, const float[:, ::1] weights, size_t before,
                  size_t after, StreamRules rules not None):
        self.rules = rules.c.get()
        _weights(weights, self.rules.chains * self.rules.tags, self.rules.chains)
        self.dictionary, self.weights, self.before, self.after = dictionary, weights, before, after
        self.c = new CStream(rules.c)

    def __dealloc__(self):
        del self.c

    @property
    def length(self):
        return self.c.length()

    @property
    def first(self):
        return self.c.first()

    @property
    def final(self):
        return self.c.final()

    @property
    def undecided(self):
        return self.c.undecided()

    @property
    def forced(self):
        return self.c.forced()

    def extend(self, list pieces not None, bint ended, long long max_lag,
               WordScores scores not None):
        """Take pieces, `StreamTokens`, and return the complete spans: chain, start, end, and the tag
        of the first token. Return None if no token has new scores.

        ended: whether no token follows. max_lag: tokens that are older get the tags of the best
        labeling so far. scores: see `WordScores`. ValueError for scores of NaN and infinity, and if
        no labeling is allowed; the stream then stays as it was.
        """
        cdef int n_chains = self.rules.chains
        cdef Weights table = _weights(self.weights, n_chains * self.rules.tags, n_chains)
        cdef size_t known = self.window.size(), stop, first
        cdef int n
        cdef WordBatch batch
        cdef StreamTokens piece
        cdef CSpan span
        try:
            for given in pieces:
                piece = given
                if not self.window.size():
                    self.window.singles, self.window.bags = piece.c.singles, piece.c.bags
                if (piece.c.singles != self.window.singles or piece.c.bags != self.window.bags or
                        piece.c.singles + piece.c.bags < scores.n_columns):
                    raise ValueError(f"a piece has {piece.c.singles} values, {piece.c.bags} bags")
                self.window.add(piece.c)
            n = self.window.size()
            stop = n if ended else max(self.start + self.after, n) - self.after
            if stop == self.start and not ended:
                return None
            batch.tokens, batch.words = self.window.view(), self.window.hashes.data()
            batch.lengths, batch.size, batch.start, batch.to = &n, 1, self.start, stop
            self.scores.resize(stop * table.tags)
            with nogil:
                if stop > self.start:
                    scores.c.score(batch, self.dictionary.c, table, self.scores.data())
                self.c.extend(self.scores.data(), self.window, self.start, stop, ended, max_lag)
        except BaseException:
            self.window.keep(0, known)
            raise
        first = max(self.before, stop) - self.before
        self.window.keep(first, n)
        self.start = stop - first
        return [(span.chain, span.start, span.end, span.tag) for span in self.c.take_complete()]

    def characters(self, long long start, long long stop):
        """Return the first character of some tokens, and the one behind the last."""
        if not self.c.first() <= start < stop <= self.c.length():
            raise IndexError(f"tokens {start} to {stop}")
        return self.c.start(start), self.c.end(stop - 1)

    def tags(self, long long start, long long stop):
        """Return the tags of the first chain."""
        cdef long long i
        if not self.c.first() <= start <= stop <= self.c.length():
            raise IndexError(f"tokens {start} to {stop}")
        return [self.c.tag(i) for i in range(start, stop)]

    def drop(self, long long first):
        """Forget the tokens before `first`. The last token stays."""
        self.c.drop(min(first, self.c.undecided()))

    def bound(self, int chain, long long start, tags, int inside=-1):
        """Return bounds of the probability that a chain has these tags from a token on.

        inside: a tag that the token after them has not, or -1.
        """
        cdef double low = 0, high = 1
        cdef vector[int] path = tags
        cdef int tag
        for tag in path:
            if not 0 <= tag < self.rules.tags:
                raise IndexError(f"tag {tag} of {self.rules.tags}")
        if (not self.rules.posterior or not 0 <= chain < self.rules.chains or
                inside >= self.rules.tags or path.empty() or
                not self.c.first() <= start <= self.c.length() - <long long>path.size()):
            raise IndexError(f"{len(tags)} tags of chain {chain} at token {start}")
        self.c.bound(chain, start, path, inside, 0, low, high)
        return low, high

    def candidates(self, long long start, const double[:, ::1] least, const int[:, ::1] tags):
        """Return the spans from a token on that may have the posterior `least` (C, K), unsorted.

        tags: (4, K) the first, inner, last and single tags of spans, see `chain.SpanTags`. A span
        is chain, start, end and slot. An open one, whose last tokens are still to come, ends at
        `length` + 1.
        """
        cdef list found = []
        cdef vector[int] path
        cdef long long i, end, length = self.c.length()
        cdef int c, k, after
        if (tags.shape[0] != 4 or tags.shape[1] != least.shape[1] or
                self.rules.chains != least.shape[0] or not self.rules.posterior):
            raise ValueError(f"least is {(least.shape[0], least.shape[1])}")
        for k in range(4):
            check_ids("tags", tags[k], 0, self.rules.tags)
        for k in range(tags.shape[1]):
            after = tags[1, k] if tags[1, k] == tags[2, k] else -1
            for c in range(self.rules.chains):
                for i in range(max(start, self.c.first()), length):
                    path.assign(1, tags[3, k])
                    if self._reaches(c, i, path, after, least[c, k]):
                        found.append((c, i, i + 1, k))
                    path[0] = tags[0, k]
                    while self._reaches(c, i, path, -1, least[c, k]):
                        end = i + <long long>path.size()
                        if end == length:
                            found.append((c, i, length + 1, k))
                            break
                        path.push_back(tags[2, k])
                        if self._reaches(c, i, path, after, least[c, k]):
                            found.append((c, i, end + 1, k))
                        path[path.size() - 1] = tags[1, k]
        return found

    cdef bint _reaches(self, int c, long long i, const vector[int]& path, int after,
                       double least) except -1:
        cdef double low = 0, high = 1
        self.c.bound(c, i, path, after, least, low, high)
        return high >= least
