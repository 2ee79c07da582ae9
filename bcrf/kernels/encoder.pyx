# distutils: language = c++
# cython: boundscheck=False, wraparound=False
"""Compiled kernels of spaCy's CNN: hashed embeddings mixed by Maxout, and Maxout window encoders.

A stack has `depth` layers. A layer concatenates the rows of a window of tokens, multiplies them by
the weights of each piece, takes the maximum over the pieces, normalizes the outputs of a token, and
adds its input if the stack is residual. Outside a document, rows are zero, as in Thinc's
`with_array` with padding. Arrays are float32. Results do not depend on the number of threads, to the
last bit, and predictions of a document not on the other documents of its batch.

This is an extension of its own because it has state. It `cimport`s neither NumPy nor Thinc nor
spaCy, so a wheel works with any build of these.
"""

from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

import numpy

from . import threads
from .checks cimport check_lengths, watch_signals

watch_signals()


cdef extern from "cpu/sparse/distinct_rows.hh" namespace "bcrf" nogil:
    cdef cppclass CDistinctRows "bcrf::DistinctRows":
        CDistinctRows(size_t) except +
        size_t size()
        void number(const uint64_t*, size_t, bint, int32_t*) except +
        const uint64_t* rows()

cdef extern from "cpu/encoder/kernels.hh" namespace "bcrf" nogil:
    cdef cppclass MaxoutParams[R]:
        R* weights
        R* bias
        R* gain
        R* shift

    cdef cppclass StackShape:
        int depth, width_in, width, pieces, window
        bint residual

    cdef cppclass CStack "bcrf::Stack":
        StackShape shape

    cdef cppclass TraceLayer "bcrf::Trace::Layer":
        uint32_t seed
        float dropout

    cdef cppclass CTrace "bcrf::Trace":
        vector[int] lengths
        vector[TraceLayer] layers

    cdef cppclass EncoderKernels:
        uint64_t fingerprint(const float*, size_t, uint64_t)
        void pack(CStack&, const vector[MaxoutParams[const float]]&) except +
        void predict(const CStack&, const float*, const int*, int, float*, int) except +
        void train(const CStack&, const float*, float*, CTrace&, int) except +
        void backward(const CStack&, const CTrace&, const float*, const vector[MaxoutParams[float]]&, float*, int) except +

        @staticmethod
        const EncoderKernels& get() except +


cdef class DistinctRows:
    """Distinct rows of attribute values, numbered from 0 in the order in which they come."""

    cdef unique_ptr[CDistinctRows] rows_
    cdef size_t width

    def __init__(self, size_t width):
        self.width = width
        self.rows_.reset(new CDistinctRows(width))

    def __len__(self):
        return self.rows_.get().size()

    def number(self, const uint64_t[:, ::1] rows):
        """Return the numbers, int32 (N,), of rows (N, width). New rows get new numbers."""
        if <size_t>rows.shape[1] != self.width:
            raise ValueError(f"rows must have {self.width} columns, got {rows.shape[1]}")
        numbers = numpy.empty(rows.shape[0], "int32")
        cdef int32_t[::1] numbers_ = numbers
        with nogil:
            self.rows_.get().number(&rows[0, 0], rows.shape[0], True, &numbers_[0])
        return numbers

    def rows(self, size_t first):
        """Return the rows from number `first` on, uint64 (M, width)."""
        cdef size_t n = self.rows_.get().size() - first
        rows = numpy.empty((n, self.width), "uint64")
        cdef uint64_t[:, ::1] rows_ = rows
        memcpy(&rows_[0, 0], self.rows_.get().rows() + first * self.width, rows.nbytes)
        return rows


cdef class Trace:
    """What the backward pass needs of a training batch."""

    cdef CTrace trace


# The parts of a large array that a sample reads, and their length.
cdef size_t PARTS = 16, PART = 64


def fingerprint(arrays, bint sample=False):
    """Return 64 bits that change, almost surely, when a number of the float32 arrays changes.

    sample: read 16 parts of 64 numbers of each array, evenly spaced, in place of all numbers.
    """
    cdef const EncoderKernels* kernels = &EncoderKernels.get()
    cdef uint64_t mixed = 1
    cdef const float[::1] array
    cdef size_t n, i
    for each in arrays:
        array = each.reshape(-1)
        n = array.shape[0]
        if sample and n > PARTS * PART:
            for i in range(PARTS):
                mixed = kernels.fingerprint(&array[i * (n - PART) // (PARTS - 1)], PART, mixed)
        elif n:
            mixed = kernels.fingerprint(&array[0], n, mixed)
    return mixed


cdef class Stack:
    """A stack of Maxout layers with layer normalization, and a packed copy of its parameters.

    params: (W, b, G, shift) of each layer; W has the shape (width, pieces, inputs), b (width,
    pieces), G and shift (width,). Layers have 2 or 3 pieces. A window has `window` tokens on either
    side. `residual` layers add their input to their output.

    Raises ValueError if the shapes do not fit together.
    """

    cdef CStack stack

    def __init__(self, params, *, int window, bint residual):
        if not params or window < 0:
            raise ValueError("a stack has at least one layer, and a window of at least 0 tokens")
        positions = 2 * window + 1
        width, pieces, inputs = params[0][0].shape
        if pieces not in (2, 3):
            raise ValueError(f"the kernels have 2 or 3 pieces, got {pieces}")
        if inputs % positions or width < 1 or inputs < 1:
            raise ValueError(f"a window of {positions} tokens cannot have {inputs} inputs")
        if inputs != positions * width and (residual or len(params) > 1):
            raise ValueError(
                f"a residual or deep stack of width {width} must have {positions * width} inputs, "
                f"got {inputs}"
            )
        for l, layer in enumerate(params):
            shapes = tuple(array.shape for array in layer)
            if shapes != ((width, pieces, inputs), (width, pieces), (width,), (width,)):
                raise ValueError(f"the parameters of layer {l} have the shapes {shapes}")
        self.stack.shape.depth = len(params)
        self.stack.shape.width_in = inputs // positions
        self.stack.shape.width = width
        self.stack.shape.pieces = pieces
        self.stack.shape.window = window
        self.stack.shape.residual = residual
        cdef vector[MaxoutParams[const float]] views
        cdef MaxoutParams[const float] view
        cdef const float[:, :, ::1] weights
        cdef const float[:, ::1] bias
        cdef const float[::1] gain, shift
        for weights, bias, gain, shift in params:
            view.weights, view.bias = &weights[0, 0, 0], &bias[0, 0]
            view.gain, view.shift = &gain[0], &shift[0]
            views.push_back(view)
        with nogil:
            EncoderKernels.get().pack(self.stack, views)

    def predict(self, const float[:, ::1] x, const int[::1] lengths):
        """Return the outputs (N, width) of documents of `lengths` tokens with rows x (N, width_in)."""
        self._check_batch(x, lengths)
        out = numpy.empty((x.shape[0], self.stack.shape.width), "float32")
        cdef float[:, ::1] out_ = out
        cdef int n_threads = threads.chosen or threads.count()
        with nogil:
            EncoderKernels.get().predict(self.stack, &x[0, 0], &lengths[0], lengths.shape[0], &out_[0, 0], n_threads)
        return out

    def train(self, const float[:, ::1] x, const int[::1] lengths, dropout, seeds):
        """Return outputs as `predict` does, under dropout, and the trace for `backward`.

        dropout: the rate of each layer; seeds: the seed of each layer's mask, uint32.
        """
        self._check_batch(x, lengths)
        cdef Trace trace = Trace()
        trace.trace.lengths.assign(&lengths[0], &lengths[0] + lengths.shape[0])
        trace.trace.layers.resize(self.stack.shape.depth)
        for l in range(self.stack.shape.depth):
            trace.trace.layers[l].dropout = dropout[l]
            trace.trace.layers[l].seed = seeds[l]
        out = numpy.empty((x.shape[0], self.stack.shape.width), "float32")
        cdef float[:, ::1] out_ = out
        cdef int n_threads = threads.chosen or threads.count()
        with nogil:
            EncoderKernels.get().train(self.stack, &x[0, 0], &out_[0, 0], trace.trace, n_threads)
        return out, trace

    def backward(self, Trace trace, const float[:, ::1] dy):
        """Return the gradient of the input (N, width_in) and of each layer's parameters."""
        cdef Py_ssize_t i, total = 0
        for i in range(<Py_ssize_t>trace.trace.lengths.size()):
            total += trace.trace.lengths[i]
        if dy.shape[0] != total or dy.shape[1] != self.stack.shape.width:
            raise ValueError(
                f"dy must have shape {(total, self.stack.shape.width)}, "
                f"got {(dy.shape[0], dy.shape[1])}"
            )
        if <int>trace.trace.layers.size() != self.stack.shape.depth:
            raise ValueError("the trace is of another stack")
        cdef vector[MaxoutParams[float]] views
        cdef MaxoutParams[float] view
        cdef StackShape shape = self.stack.shape
        cdef float[:, :, ::1] weights
        cdef float[:, ::1] bias
        cdef float[::1] gain, shift
        gradients = []
        for l in range(shape.depth):
            inputs = (2 * shape.window + 1) * (shape.width_in if l == 0 else shape.width)
            layer = (
                numpy.zeros((shape.width, shape.pieces, inputs), "float32"),
                numpy.zeros((shape.width, shape.pieces), "float32"),
                numpy.zeros(shape.width, "float32"),
                numpy.zeros(shape.width, "float32"),
            )
            weights, bias, gain, shift = layer
            view.weights, view.bias = &weights[0, 0, 0], &bias[0, 0]
            view.gain, view.shift = &gain[0], &shift[0]
            views.push_back(view)
            gradients.append(layer)
        dx = numpy.empty((dy.shape[0], shape.width_in), "float32")
        cdef float[:, ::1] dx_ = dx
        cdef int n_threads = threads.chosen or threads.count()
        with nogil:
            EncoderKernels.get().backward(self.stack, trace.trace, &dy[0, 0], views, &dx_[0, 0], n_threads)
        return dx, gradients

    cdef _check_batch(self, const float[:, ::1] x, const int[::1] lengths):
        check_lengths(lengths, x.shape[0])
        if x.shape[1] != self.stack.shape.width_in:
            raise ValueError(
                f"x must have {self.stack.shape.width_in} columns, got {x.shape[1]}"
            )
