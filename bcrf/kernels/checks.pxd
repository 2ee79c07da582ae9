"""Checks of array contents, and signal handlers, for the compiled modules.

The functions of `bcrf.kernels` check types and shapes. The compiled loops access memory by
these contents, so they check them in O(N).
"""

from libc.stdint cimport int64_t


cdef extern from "Python.h":
    int PyErr_CheckSignals()
    unsigned long PyThread_get_thread_ident() nogil


cdef extern from *:
    "static unsigned long bcrf_main_thread;"
    unsigned long main_thread "bcrf_main_thread"


cdef extern from "cpu/interrupt.hh" namespace "bcrf" nogil:
    int (*run_signal_handlers)() noexcept nogil


cdef inline int run_python_handlers() noexcept nogil:
    # Python handles signals in its main thread. Another thread that asks for the global lock while
    # the interpreter exits does not return, and a C++ program cannot end in this way.
    if PyThread_get_thread_ident() != main_thread:
        return 1
    with gil:
        return PyErr_CheckSignals() == 0


cdef inline int watch_signals() except -1:
    """Let the loops of this module run Python's signal handlers."""
    global main_thread, run_signal_handlers
    from threading import main_thread as get_main_thread

    main_thread = get_main_thread().ident
    run_signal_handlers = run_python_handlers
    return 0


cdef inline int check_lengths(const int[::1] lengths, Py_ssize_t n_tokens) except -1:
    """Raise ValueError for a negative length, or if the lengths do not sum to `n_tokens`."""
    cdef Py_ssize_t b
    cdef int64_t total = 0
    for b in range(lengths.shape[0]):
        if lengths[b] < 0:
            raise ValueError(f"lengths[{b}] is negative: {lengths[b]}")
        total += lengths[b]
    if total != n_tokens:
        raise ValueError(f"lengths sum to {total}, but there are {n_tokens} tokens")
    return 0


cdef inline bint are_ids(const int[::1] ids, int least, int n) noexcept:
    """Return whether all numbers are in [least, n)."""
    cdef Py_ssize_t i
    cdef unsigned int x, found = 0
    # The highest bit of x is set for a negative number, that of n - 1 - x for a large one, if `least` is 0.
    for i in range(ids.shape[0]):
        x = <unsigned int>ids[i] - <unsigned int>least
        found |= x | (<unsigned int>n - <unsigned int>least - 1 - x)
    return found <= 0x7fffffff


cdef inline int check_ids(str name, const int[::1] ids, int least, int n) except -1:
    """Raise ValueError for a number outside [least, n)."""
    cdef Py_ssize_t i
    for i in range(ids.shape[0]):
        if not least <= ids[i] < n:
            raise ValueError(f"{name} must be from {least} to {n - 1}, got {ids[i]} at {i}")
    return 0


cdef inline int check_starts(str name, const int64_t[::1] starts, int64_t end) except -1:
    """Raise ValueError unless the numbers rise from 0 or more to at most `end`."""
    cdef Py_ssize_t i
    cdef int64_t last = 0
    if not starts.shape[0]:
        raise ValueError(f"{name} must not be empty")
    for i in range(starts.shape[0]):
        if not last <= starts[i] <= end:
            raise ValueError(f"{name} must rise from 0 to at most {end}, got {starts[i]} at {i}")
        last = starts[i]
    return 0
