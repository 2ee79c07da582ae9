# Rows of attributes by name, as CRFsuite's users give them: nested dicts, and lists of names.

from collections.abc import Iterable
from libc.math cimport isfinite
from cpython.unicode cimport PyUnicode_AsEncodedString

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char*) except *  # not 0 for an error
    void Py_LeaveRecursiveCall()
    bint PyUnicode_IS_COMPACT_ASCII(object)
    unsigned char* PyUnicode_1BYTE_DATA(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)

cdef extern from "cpu/sparse/attributes.hh" namespace "bcrf" nogil:
    cdef cppclass AttributeReader:
        vector[uint64_t] keys
        vector[int] rows
        vector[double] values
        vector[int64_t] starts
        bint has_values
        const char* name()
        size_t length()
        void cut(size_t)
        void append(const char*, size_t) except +
        void add(double) except +
        void end_token() except +
        void find(CDictionary&) except +


cdef int _append(AttributeReader& found, text) except -1:
    """Append a str or bytes to the name. Raise UnicodeDecodeError for bytes that are not UTF-8."""
    if isinstance(text, bytes):
        text = (<bytes>text).decode()
    if PyUnicode_IS_COMPACT_ASCII(text):
        found.append(<const char*>PyUnicode_1BYTE_DATA(text), PyUnicode_GET_LENGTH(text))
        return 0
    cdef bytes encoded = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass")
    found.append(encoded, len(encoded))
    return 0


cdef double _number(key, value) except? -1:
    """Return a number. Raise ValueError for another value, and one that is not finite."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"attribute {key!r} has the value {value!r:.60}; expected a str, a bool, a finite "
            "number, or a list, set or dict of these"
        ) from None
    if not isfinite(number):
        raise ValueError(f"attribute {key!r} has the value {value!r}; expected a finite number")
    return number


cdef class AttributeTable:
    """Attributes by name, and their rows.

    A pair of a dict is an attribute: `key:value` for a string, `key` for a number, which is its
    value, and `key:name` for each name of a nested list, set or dict. A list has the names. An
    attribute with the value 0 does not count.
    """

    cdef readonly list names
    cdef CDictionary rows  # by hash of the name

    def __init__(self, names=()):
        """Raise TypeError for a name that is not a str."""
        cdef AttributeReader found
        self.names = []
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"attribute {name!r:.60} is not a str")
            self.names.append(name)
            found.cut(0)
            _append(found, name)
            found.add(1)
        self.rows.assign(found.keys.data(), found.keys.size())

    def __reduce__(self):
        return AttributeTable, (self.names,)

    cdef int _add(self, AttributeReader& found, double value, bint new) except -1:
        """Add the attribute of the name, which gets a row if `new`."""
        cdef int row
        found.add(value)
        if new:
            self.rows.find(&found.keys.back(), 1, True, &row)
            if row == len(self.names):
                self.names.append(found.name()[:found.length()].decode("utf-8", "surrogatepass"))
        return 0

    cdef int _add_name(self, AttributeReader& found, name, bint new) except -1:
        cdef size_t length = found.length()
        if not isinstance(name, (str, bytes)):
            raise ValueError(f"attribute {name!r:.60} is not a str")
        _append(found, name)
        self._add(found, 1, new)
        found.cut(length)
        return 0

    cdef int _add_pair(self, AttributeReader& found, key, value, bint new) except -1:
        cdef size_t length = found.length()
        cdef double number
        if not isinstance(key, (str, bytes)):
            raise ValueError(f"attribute {key!r:.60} is not a str")
        _append(found, key)
        if isinstance(value, (str, bytes)):
            found.append(":", 1)
            _append(found, value)
            self._add(found, 1, new)
        elif isinstance(value, (dict, list, set)):
            found.append(":", 1)
            self._add_all(found, value, new)
        else:
            number = 1 if value is True else 0 if value is False else _number(key, value)
            if number:
                self._add(found, number, new)
        found.cut(length)
        return 0

    cdef int _add_all(self, AttributeReader& found, token, bint new) except -1:
        """Add the attributes of a dict, list or set. The name has what comes before theirs."""
        Py_EnterRecursiveCall(" in the attributes of a token")
        try:
            if isinstance(token, dict):
                for key, value in (<dict>token).items():
                    self._add_pair(found, key, value, new)
            elif isinstance(token, list):
                for name in <list>token:
                    self._add_name(found, name, new)
            else:
                for name in token:
                    self._add_name(found, name, new)
        finally:
            Py_LeaveRecursiveCall()
        return 0

    def read(self, X, bint add=False):
        """Look up the attributes of sequences of N tokens. add: whether unknown ones get new rows.

        Return rows int32, starts int64 (N + 1,), the values float64 of the rows, or None if all are
        1, and lengths int32. Unknown attributes are left out.
        Raises ValueError naming the sequence, the token and the attribute.
        """
        cdef AttributeReader found
        cdef vector[int] lengths
        cdef Py_ssize_t i
        for n, sequence in enumerate(X):
            if not isinstance(sequence, list):
                if isinstance(sequence, (str, bytes, dict)) or not isinstance(sequence, Iterable):
                    raise ValueError(
                        f"sequence {n}: expected a list of tokens, got {sequence!r:.80}"
                    )
                sequence = list(sequence)
            i = 0
            for token in <list>sequence:
                try:
                    if not isinstance(token, (dict, list)):
                        if isinstance(token, (str, bytes)) or not isinstance(token, Iterable):
                            raise ValueError(f"expected a dict or a list of str, got {token!r:.80}")
                        token = list(token)
                    self._add_all(found, token, add)
                except ValueError as error:
                    raise ValueError(f"sequence {n}, token {i}: {error}") from None
                found.end_token()
                i += 1
            lengths.push_back(i)
        found.find(self.rows)
        return (
            _copy(found.rows.data(), found.rows.size() * sizeof(int), "int32"),
            _copy(found.starts.data(), found.starts.size() * sizeof(int64_t), "int64"),
            _copy(found.values.data(), found.rows.size() * sizeof(double), "float64")
            if found.has_values else None,
            _copy(lengths.data(), lengths.size() * sizeof(int), "int32"),
        )
