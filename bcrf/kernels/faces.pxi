# Conversions between the arrays of native.pyx, which includes this file, and those of `bcrf.torch`:
# padded tensors (B, L, T), whose shapes it checks, and lists of labels.

from libc.stdint cimport int64_t

cdef extern from "cpu/padding.hh" namespace "bcrf" nogil:
    bint move_rows[In](In*, In*, const Py_ssize_t*, const Py_ssize_t*, const int*, In, bint)


def take_padded(
    const real[:, :, :] scores, const real[:, ::1] transitions, const real[::1] start,
    const real[::1] end, const unsigned char[:, :] mask, const int64_t[:, :] tags
):
    """Return the scores (N, T) of the tokens, start and end added, the lengths, and int32 tags.

    start, end, mask and tags may be None. The tag -100, unknown, becomes -1. Returns None if a tag,
    score or shape is wrong, or a sequence has no token or a hole: the caller says where.
    """
    cdef Py_ssize_t size = scores.shape[0], steps = scores.shape[1], n_tags = scores.shape[2]
    cdef Py_ssize_t b, i, n = 0
    cdef bint wrong = scores.strides[2] != sizeof(real)
    wrong |= not _are_finite(&transitions[0, 0], transitions.shape[0] * transitions.shape[1])
    wrong |= transitions.shape[0] != n_tags or transitions.shape[1] != n_tags
    wrong |= start is not None and start.shape[0] != n_tags
    wrong |= end is not None and end.shape[0] != n_tags
    wrong |= mask is not None and (mask.shape[0] != size or mask.shape[1] != steps)
    wrong |= tags is not None and (tags.shape[0] != size or tags.shape[1] != steps)
    if wrong:
        return None
    cdef int64_t tag
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
        lengths_[b] = <int>i
        n += i
    if wrong:
        return None
    unary = numpy.empty((n, n_tags), FLOAT32 if real is float else FLOAT64)
    gold = None if tags is None else numpy.empty(n, "int32")
    cdef real[:, ::1] unary_ = unary
    cdef int[::1] gold_ = gold
    cdef real* rows = &unary_[0, 0]
    cdef real* padded = <real*>&scores[0, 0, 0]
    wrong |= not move_rows(rows, padded, scores.shape, scores.strides, &lengths_[0], <real>1, False)
    n = 0
    for b in range(size):
        if start is not None:
            wrong |= not _are_finite(_add(&start[0], rows + n * n_tags, n_tags), n_tags)
        if tags is not None:
            for i in range(lengths_[b]):
                tag = tags[b, i]
                wrong |= not (0 <= tag < n_tags or tag == -100)
                gold_[n + i] = -1 if tag == -100 else <int>tag
        n += lengths_[b]
        if end is not None:
            wrong |= not _are_finite(_add(&end[0], rows + (n - 1) * n_tags, n_tags), n_tags)
    return None if wrong else (unary, lengths, gold)


def pad_rows(
    const real[:, ::1] rows, const int[::1] lengths, real[:, :, :] padded, real[:, ::1] ends,
    real factor
):
    """Write factor times the rows (N, T) to padded (B, L, T), with zeros for its padding.

    Adds those of first and last tokens to ends[0] and ends[1] (T,).
    """
    check_lengths(lengths, rows.shape[0])
    cdef Py_ssize_t b, n_tags = rows.shape[1]
    cdef real* to = &padded[0, 0, 0]
    move_rows(<real*>&rows[0, 0], to, padded.shape, padded.strides, &lengths[0], factor, True)
    for b in range(padded.shape[0]):
        if lengths[b]:
            _add(&padded[b, 0, 0], &ends[0, 0], n_tags)
            _add(&padded[b, lengths[b] - 1, 0], &ends[1, 0], n_tags)


def name_labels(list names, const int[::1] tags, const int[::1] lengths):
    """Return the names of the tags of each sequence, a list of lists."""
    check_lengths(lengths, tags.shape[0])
    check_ids("tags", tags, 0, <int>len(names))
    cdef list found = []
    cdef Py_ssize_t b, end = 0
    for b in range(lengths.shape[0]):
        end += lengths[b]
        found.append([names[tags[i]] for i in range(end - lengths[b], end)])
    return found


cdef inline real* _add(const real* x, real* sums, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t t
    for t in range(n):
        sums[t] += x[t]
    return sums
