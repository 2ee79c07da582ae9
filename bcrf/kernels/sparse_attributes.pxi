# Rows of attributes by name, as CRFsuite's users give them: dicts, and lists of names.

from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject

cdef extern from "cpu/batch.hh" namespace "bcrf" nogil:
    void prefetch(const void*)

cdef extern from *:
    """
    // Return the hash of a str, which keeps it from the first time on.
    static inline Py_hash_t bcrf_hash(PyObject* text) {
        const Py_hash_t known = ((PyASCIIObject*)text)->hash;
        return known != -1 ? known : PyObject_Hash(text);
    }
    """
    uint64_t bcrf_hash(PyObject* text)
    bint is_str "PyUnicode_CheckExact"(PyObject*)


cdef struct Pair:
    PyObject* key  # NULL for a name in a list
    PyObject* value


cdef enum:
    OFF = 0  # the hash of a pair with the value 0
    OTHER = 1  # the hash of a pair that only Python can read
    TOKENS = 16  # that are read at a time


cdef uint64_t _hash(Pair pair) noexcept:
    """Return the hash of an attribute with the value 1, OFF, or OTHER. Run no code of the caller."""
    cdef uint64_t of_value = 0x9e3779b97f4a7c15ULL
    if pair.key != NULL and not is_str(pair.key):
        return OTHER
    value = <object>pair.value
    if is_str(pair.value):
        of_value = bcrf_hash(pair.value)
    elif pair.key == NULL:
        return OTHER
    elif value is False:
        return OFF
    elif value is not True:
        if type(value) is not float and type(value) is not int:
            return OTHER
        if value != 1:
            return OFF if value == 0 else OTHER
    # As boost::hash_combine, and odd multiples.
    if pair.key != NULL:
        of_value ^= (bcrf_hash(pair.key) + (of_value << 6)) * 0xff51afd7ed558ccdULL
    return of_value if of_value > OTHER else 2


cdef int _add_pairs(token, vector[Pair]& pairs) except -1:
    """Add the pairs of a dict or the names of a list, as borrowed references. Prefetch them."""
    cdef Pair pair
    cdef Py_ssize_t at = 0
    if isinstance(token, dict):
        while PyDict_Next(token, &at, &pair.key, &pair.value):
            prefetch(pair.key)
            prefetch(pair.value)
            pairs.push_back(pair)
        return 0
    pair.key = NULL
    for name in <list>token:
        pair.value = <PyObject*>name
        pairs.push_back(pair)
    return 0


cdef class AttributeTable:
    """Rows of attributes by name, and a cache of the pairs and names that were looked up."""

    cdef dict rows
    cdef CDictionary seen  # by hash, which is another one in each process
    cdef vector[int] row_of_seen

    def __init__(self, dict rows not None):
        self.rows = rows

    cdef int _look_up(self, Pair pair, uint64_t key, bint add) except -2:
        """Return the row of an attribute that is not in the cache; -1 if it is unknown."""
        cdef int at
        name = <str>(pair.value if pair.key == NULL else pair.key)
        if pair.key != NULL and is_str(pair.value):
            name = f"{name}:{<str>pair.value}"
        row = self.rows.get(name)
        if row is None:
            if not add:
                return -1  # without a place in the cache: there is no end of unknown attributes
            row = self.rows[name] = len(self.rows)
        self.seen.find(&key, 1, True, &at)
        if <size_t>at == self.row_of_seen.size():
            self.row_of_seen.push_back(row)
        return row

    def find(self, list tokens not None, bint add=False):
        """Look up the attributes of tokens: dicts, and lists of names.

        Return rows int32, sizes int64 (N,), and other pairs. The row of a value of 0 is -1, and so
        is that of an unknown attribute, which gets a new row if `add`. An other pair, neither a str
        nor a value of 0 or 1, is (index, key, value). Its key is None in a list.
        Raises TypeError for other tokens, and then adds nothing.
        """
        cdef vector[Pair] pairs
        cdef vector[uint64_t] keys
        cdef vector[int] rows
        cdef list others = [], other_keys = [], other_values = []
        cdef Py_ssize_t first, i, k, begin, n = len(tokens)
        cdef int* found
        for i in range(n):
            if not isinstance(tokens[i], (dict, list)):
                raise TypeError(f"token {i} is neither a dict nor a list")
        sizes = numpy.empty(n, dtype="int64")
        cdef int64_t[::1] size_of = sizes
        # References are borrowed, so this loop runs no code of the caller. Without new objects of
        # a kind that the garbage collector tracks, that does not run either.
        for first in range(0, n, TOKENS):
            pairs.clear()
            for i in range(first, min(first + TOKENS, n)):
                size_of[i] = -<int64_t>pairs.size()
                _add_pairs(tokens[i], pairs)
                size_of[i] += pairs.size()
            begin = rows.size()
            rows.resize(begin + pairs.size())
            keys.resize(pairs.size())
            found = rows.data() + begin
            for k in range(<Py_ssize_t>pairs.size()):
                keys[k] = _hash(pairs[k])
            self.seen.find(keys.data(), keys.size(), False, found)
            for k in range(<Py_ssize_t>pairs.size()):
                if found[k] >= 0:
                    found[k] = self.row_of_seen[found[k]]
                elif keys[k] == OTHER:
                    others.append(begin + k)
                    other_keys.append(None if pairs[k].key == NULL else <object>pairs[k].key)
                    other_values.append(<object>pairs[k].value)
                elif keys[k] != OFF:
                    found[k] = self._look_up(pairs[k], keys[k], add)
        array = _copy(rows.data(), rows.size() * sizeof(int), "int32")
        return array, sizes, list(zip(others, other_keys, other_values))
