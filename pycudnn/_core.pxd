"""The owning classes and the frame of a checked call, shared by the compute modules."""

from cpython.object cimport PyObject

cdef enum:
    MAX_DIMS = 8       # CUDNN_DIM_MAX
    MAX_PINS = 40      # widest call: 33 arguments
    HOT_SLOTS = 64


cdef class Library:
    cdef readonly str name
    cdef readonly str backend
    cdef size_t alignment       # bytes, of the memory that it takes
    cdef void* slots[HOT_SLOTS]
    cdef void* get(self, int slot, str function) except NULL


cdef class Pinnable:
    cdef int pins
    cdef bint closing
    cdef int ready(self) except -1
    cdef int finish(self) except -1


cdef class Owned(Pinnable):
    cdef void* pointer
    cdef void* destroyer
    cdef void* context           # CUcontext that freeing needs, NULL for a descriptor
    cdef readonly Library library
    cdef long long serial        # never reused, unlike the pointer
    cdef tuple settings


cdef class Handle(Owned):
    cdef void* lock
    cdef int process             # that made it: a number of forks
    cdef bint context_pushed
    cdef readonly object device
    cdef object current_stream
    cdef readonly int device_index
    cdef bint is_foreign(self) noexcept


cdef class CudnnHandle(Handle):
    pass


cdef class CublasHandle(Handle):
    cdef readonly int pointer_mode_code


cdef class TensorLike(Owned):
    cdef int dtype
    cdef int ndim
    cdef long long dims[MAX_DIMS]
    cdef long long steps[MAX_DIMS]
    cdef size_t item                    # bytes of an element; 0: vectors, which strides count
    cdef readonly size_t extent
    cdef readonly bint overlaps_itself  # elements share memory


cdef class TensorDescriptor(TensorLike):
    pass


cdef class FilterDescriptor(TensorLike):
    pass


cdef struct Axis:
    long long window        # of a pooling; a filter has its own
    long long padding
    long long stride
    long long dilation


cdef struct WorkspaceAnswer:
    long long handle
    long long input
    long long filter
    long long output
    int algorithm
    size_t needed


cdef class ConvolutionDescriptor(Owned):
    cdef readonly int ndim
    cdef Axis axes[MAX_DIMS]
    cdef WorkspaceAnswer answers[3]     # the last one per direction


cdef class PoolingDescriptor(Owned):
    cdef readonly int ndim
    cdef Axis axes[MAX_DIMS]
    cdef long long fitting_input        # serials of the last pair whose shapes fit
    cdef long long fitting_output


cdef class ActivationDescriptor(Owned):
    cdef int mode_code


cdef class DropoutDescriptor(Owned):
    cdef readonly object states


cdef class Buffer(Pinnable):
    cdef readonly size_t address
    cdef readonly size_t nbytes
    cdef readonly str backend
    cdef readonly int device_index
    cdef readonly int dtype_code
    cdef readonly bint writable
    cdef readonly object owner          # foreign memory only: whoever keeps it alive
    cdef readonly object last_stream


cdef struct Span:
    size_t begin                        # addresses of an operand's first byte and behind its last
    size_t end
    bint writes
    PyObject* name
    PyObject* descriptor                # NULL: none


cdef struct Frame:
    PyObject* library
    PyObject* handle
    PyObject* stream                    # of a call that takes a stream instead of a handle
    int device_index                    # of that stream
    size_t alignment
    int count
    PyObject* pinned[MAX_PINS]
    int span_count
    Span spans[MAX_PINS]
    bint foreign


cdef int begin(Frame* frame, Library library, Handle handle) except -1
cdef int use(Frame* frame, Owned owned) except -1
cdef void* operand(Frame* frame, object value, str name, bint writes, size_t needed, int dtype,
                   TensorLike descriptor) except? NULL
cdef int keep_apart(Frame* frame, str over) except -1
cdef int end(Frame* frame) except -1
cdef void enter(Handle handle) noexcept nogil
cdef void leave(Handle handle) noexcept nogil
cdef double number(object value, str name) except? -1.0
cdef int fail(Library library, str function, int status, tuple arguments) except -1
