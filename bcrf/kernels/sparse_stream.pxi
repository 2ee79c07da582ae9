# Labelings of tokens that arrive in pieces.

cdef extern from "cpu/sparse/stream.hh" namespace "bcrf" nogil:
    cdef cppclass StreamSpec:
        int chains, tags, outside
        bint in_float, posterior
        double scale
        vector[double] edges
        vector[char] closed, starts, goes_on

    cdef cppclass CSpan "bcrf::StreamSpan":
        int chain, tag
        long long start, end

    cdef cppclass CStream "bcrf::Stream":
        CStream(const StreamSpec&) except +
        long long length()
        long long first()
        long long forced()
        long long final()
        long long undecided()
        int tag(long long)
        void extend(const float*, const vector[int]&, bint, long long) except +
        vector[CSpan] take_complete()
        void drop(long long)
        void bound(int, long long, const vector[int]&, int, double&, double&) except +


cdef class Stream:
    """The best labeling of a text whose tokens arrive in pieces, and what of it is final.

    transitions: (4, T, T) float32 or float64, by the kind of the first token. closed: bool (3, 4,
    C, T), whether the first, another or the last token cannot have a tag, by its kind: 0 to 3, see
    `extend`. starts, goes_on: bool (T,), whether a tag starts a span or is that of none, and
    whether its span may go on. outside: the tag of no span, -1 if all tags are spans of one token.
    temperature: of the posterior, 0 if `bound` will not be asked.

    length: the number of tokens. final: of those whose tags are final in all chains. undecided: the
    first token that may be in an incomplete span. first: the first token that is not dropped.
    forced: the number of tags that `max_lag` has decided.
    """

    cdef CStream* c
    cdef int n_tags, n_chains
    cdef bint has_posterior

    def __cinit__(self, transitions, closed, starts, goes_on, int outside, double temperature):
        cdef StreamSpec spec
        _, _, self.n_chains, self.n_tags = closed.shape
        spec.chains, spec.tags, spec.outside = self.n_chains, self.n_tags, outside
        spec.in_float, spec.posterior = transitions.dtype == "float32", temperature > 0
        self.has_posterior = spec.posterior
        spec.scale = 1 / temperature if temperature else 1
        spec.edges, spec.closed = transitions.ravel().tolist(), closed.ravel().tolist()
        spec.starts, spec.goes_on = starts.tolist(), goes_on.tolist()
        self.c = new CStream(spec)

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

    def extend(self, const float[:, ::1] scores, const uint64_t[:, ::1] values, int start,
               int stop, bint ended, long long max_lag):
        """Take the tokens `start` to `stop` of scores (n, C T), and return the complete spans.

        values: (n, A >= 2). The last two columns are the kind of a token, each 1 or another number.
        ended: whether no token follows. max_lag: tokens that are older get the tags of the best
        labeling so far. A span is chain, start, end and the tag of its first token. ValueError for
        scores of NaN and infinity, and if no labeling is allowed; the stream then stays as it was.
        """
        cdef int i
        cdef vector[int] kinds
        cdef const float* given = NULL
        cdef CSpan span
        cdef Py_ssize_t last = values.shape[1] - 1
        if (scores.shape[1] != self.n_chains * self.n_tags or values.shape[0] != scores.shape[0] or
                last < 1):
            raise ValueError(f"scores are {(scores.shape[0], scores.shape[1])}")
        if not 0 <= start <= stop <= scores.shape[0]:
            raise IndexError(f"tokens {start} to {stop} of {scores.shape[0]}")
        for i in range(start, stop):
            kinds.push_back((values[i, last - 1] == 1) + 2 * (values[i, last] == 1))
        if start < stop:
            given = &scores[start, 0]
        self.c.extend(given, kinds, ended, max_lag)
        return [(span.chain, span.start, span.end, span.tag) for span in self.c.take_complete()]

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
            if not 0 <= tag < self.n_tags:
                raise IndexError(f"tag {tag} of {self.n_tags}")
        if (not self.has_posterior or not 0 <= chain < self.n_chains or
                inside >= self.n_tags or path.empty() or
                not self.c.first() <= start <= self.c.length() - <long long>path.size()):
            raise IndexError(f"{len(tags)} tags of chain {chain} at token {start}")
        self.c.bound(chain, start, path, inside, low, high)
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
                self.n_chains != least.shape[0] or not self.has_posterior):
            raise ValueError(f"least is {(least.shape[0], least.shape[1])}")
        for k in range(4):
            check_ids("tags", tags[k], 0, self.n_tags)
        for k in range(tags.shape[1]):
            after = tags[1, k] if tags[1, k] == tags[2, k] else -1
            for c in range(self.n_chains):
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
        self.c.bound(c, i, path, after, low, high)
        return high >= least
