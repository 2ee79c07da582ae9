# distutils: language = c++
# cython: boundscheck=False, wraparound=False
"""Compiled parts of `bcrf.linear`, in files that this one includes:

sparse_features.pxi    feature templates, dictionary, and tag scores of words under fixed weights
sparse_stream.pxi      labelings of tokens that arrive in pieces
sparse_learner.pxi     the online learner, scores, and second-order potentials
sparse_attributes.pxi  the names of CRFsuite's attributes

This is an extension of its own because, unlike native.pyx, it has state. It shares the kernels of
cpu/ and `cimport`s neither NumPy nor Thinc nor spaCy, so a wheel works with any build of these.

Features of N tokens are arrays `rows`, int32, and `starts`, int64 (N + 1,). Token i has the
features rows[starts[i]:starts[i + 1]]. `&view[0]` is not read if the view is empty, and is a null
pointer if it is None.
"""

from cpython.bytearray cimport PyByteArray_FromStringAndSize
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy
from libcpp.memory cimport make_shared, shared_ptr
from libcpp.vector cimport vector

import numpy

from . import native
from .checks cimport are_ids, check_ids, check_lengths, check_starts, watch_signals

watch_signals()


cdef _copy(const void* data, size_t n_bytes, dtype):
    return numpy.frombuffer(PyByteArray_FromStringAndSize(<const char*>data, n_bytes), dtype)


include "sparse_features.pxi"
include "sparse_stream.pxi"
include "sparse_learner.pxi"
include "sparse_attributes.pxi"
