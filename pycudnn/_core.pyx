# cython: language_level=3, boundscheck=False, wraparound=False
"""The hot paths: owning objects, checked operands and the cuDNN compute calls.

A compute call runs in four steps: *pin* what it uses, so that a ``close()`` in another thread
waits; *check* every operand against its descriptor; *call* the C function with the handle locked
and the GIL released; *unpin*. Function addresses come from the Library of the handle, so the same
code drives the real libraries and the reference library.
"""

import atexit
import ctypes
import os
import time
import warnings

from cpython.number cimport PyNumber_Index
from cpython.object cimport PyObject
from cpython.pythread cimport (
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_get_thread_ident,
    PyThread_release_lock,
    PyThread_type_lock,
)
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.limits cimport INT_MAX
from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from pycudnn._prototypes cimport *

from pycudnn import abi, sharing
from pycudnn.abi.cudnn_enums import (
    ConvolutionBwdDataAlgo,
    ConvolutionBwdFilterAlgo,
    ConvolutionFwdAlgo,
    SoftmaxAlgorithm,
    SoftmaxMode,
)
from pycudnn.abi.members import check_kind
from pycudnn.abi.types import HANDLES
from pycudnn.errors import LibraryMismatch, NotSupported

HANDLE_TYPES = frozenset(HANDLES.values())

cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030D0000
    #define pycudnn_finalizing() Py_IsFinalizing()
    #else
    #define pycudnn_finalizing() _Py_IsFinalizing()
    #endif
    typedef int (*pycudnn_destroy)(void *);
    #ifdef _MSC_VER
    static __declspec(thread) long pycudnn_depth;
    #else
    static __thread long pycudnn_depth;
    #endif
    """
    long depth "pycudnn_depth"      # calls that this thread is in
    bint finalizing "pycudnn_finalizing"() noexcept nogil
    ctypedef int (*destroy_fn "pycudnn_destroy")(void*) noexcept nogil


# ---- the interpreter's exit ----------------------------------------------------------------------

cdef long calls = 0                         # in progress: threads that are in one
cdef bint exiting = False
cdef unsigned long exiting_thread = 0
cdef double LAST_CALLS_SECONDS = 5.0        # that an exit waits for calls in progress
cdef PyThread_type_lock never = PyThread_allocate_lock()
PyThread_acquire_lock(never, 1)


cpdef void enter_call() noexcept:
    """A call into a library or cuda.core begins.

    While the interpreter shuts down, other threads than the one that does it stop here for good.
    The libraries are torn down under them then. And until Python 3.14 a thread that wants the GIL
    back is ended by unwinding its stack, which cuda.core's destructors turn into an abort.
    """
    global calls, depth
    if depth == 0:
        if exiting and PyThread_get_thread_ident() != exiting_thread:
            with nogil:
                PyThread_acquire_lock(never, 1)
        calls += 1
    depth += 1


cpdef void leave_call() noexcept:
    """The matching end of a call."""
    global calls, depth
    depth -= 1
    if depth == 0:
        calls -= 1


def _exit():
    global exiting, exiting_thread
    exiting_thread = PyThread_get_thread_ident()
    exiting = True
    deadline = time.monotonic() + LAST_CALLS_SECONDS
    while calls > 0 and time.monotonic() < deadline:
        time.sleep(0.001)


# What the CUDA side says in a child of the process that used it.
FORKED = ("CUDA was used before this process was forked, so it cannot be used here: start processes "
          "with multiprocessing's 'spawn' method")
cdef int process = 0        # which one of a line of children this is


def _after_fork():
    global calls, process, grave_count
    cdef size_t index, kept = 0
    process += 1
    calls = depth != 0      # the other threads are not in the child
    for index in range(grave_count):
        if graves[index].context == NULL:       # handles of a GPU stay the parent's
            graves[kept] = graves[index]
            kept += 1
    grave_count = kept


atexit.register(_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# ---- libraries -----------------------------------------------------------------------------------

cdef class Library:
    """A table of C function addresses, resolved one symbol at a time on first use."""

    def __cinit__(self, str name, str backend):
        self.name = name
        self.backend = backend
        # Some of cuDNN's kernels read 16 bytes at a time, and fault for good on other addresses.
        self.alignment = 16 if name == "cudnn" and backend == "cuda" else 1
        memset(self.slots, 0, sizeof(self.slots))
        # Destroyers call into the library at any later time, so it is never freed.
        Py_INCREF(self)

    cdef void* get(self, int slot, str function) except NULL:
        if self.slots[slot] == NULL:
            self.slots[slot] = <void*><uintptr_t> self.address(function)
        return self.slots[slot]


# ---- owning --------------------------------------------------------------------------------------

ctypedef struct Grave:
    void* pointer
    void* destroyer
    void* context

cdef Grave* graves = NULL
cdef size_t grave_count = 0
cdef size_t grave_room = 0
cdef int captures = 0
cdef long long last_serial = 0


def capture_began():
    """A stream capture began: nothing is destroyed until it has ended."""
    global captures
    captures += 1


def capture_ended():
    """The matching end of a stream capture."""
    global captures
    captures -= 1


cdef void bury(void* pointer, void* destroyer, void* context) noexcept:
    """Put an object on the list that the next call empties: a finaliser calls no library."""
    global graves, grave_count, grave_room
    cdef Grave* room
    if grave_count == grave_room:
        room = <Grave*> realloc(graves, (2 * grave_room + 16) * sizeof(Grave))
        if room == NULL:
            return
        graves = room
        grave_room = 2 * grave_room + 16
    graves[grave_count] = Grave(pointer, destroyer, context)
    grave_count += 1


cdef void empty_graves() noexcept:
    global grave_count
    cdef Grave grave
    while grave_count and not captures:
        grave_count -= 1
        grave = graves[grave_count]
        destroy(grave.pointer, grave.destroyer, grave.context)


cdef void destroy(void* pointer, void* destroyer, void* context) noexcept:
    cdef destroy_fn call = <destroy_fn> destroyer
    cdef bint pushed
    enter_call()
    with nogil:
        pushed = push_context(context)
        call(pointer)
        if pushed:
            pop_context()
    leave_call()


cdef class Pinnable:
    """What a call can use: while it is pinned, ``close()`` waits for the last pin to go."""

    cdef int ready(self) except -1:
        if self.closing:
            raise ValueError(f"this {type(self).__name__} is closed")
        return 0

    cdef int finish(self) except -1:
        return 0

    def close(self) -> None:
        """Free the C object, or have the last running call do so; twice is nothing."""
        if self.closing:
            return
        self.closing = True
        if self.pins == 0:
            self.finish()

    @property
    def closed(self) -> bool:
        """Has ``close()`` been called?"""
        return self.closing

    def __enter__(self):
        self.ready()
        return self

    def __exit__(self, *exception):
        self.close()


cdef class Owned(Pinnable):
    """A handle or descriptor: owns one C object of one library."""

    def _own(self, Library library not None, size_t pointer, str destroyer not None):
        """Take over a C object that ``destroyer`` frees (private: for the constructors)."""
        global last_serial
        if self.pointer != NULL or self.closing:
            raise ValueError(f"this {type(self).__name__} is already made; make a new one")
        self.destroyer = <void*><uintptr_t> library.address(destroyer)
        self.library = library
        self.pointer = <void*> pointer
        last_serial += 1
        self.serial = last_serial

    cdef int ready(self) except -1:
        if self.library is None:
            raise ValueError(f"this {type(self).__name__} was never made: call its constructor")
        if self.pointer == NULL or self.closing:
            raise ValueError(f"this {type(self).__name__} is closed")
        return 0

    cdef int finish(self) except -1:
        cdef void* pointer = self.pointer
        self.pointer = NULL
        if pointer == NULL:
            return 0
        if captures:
            bury(pointer, self.destroyer, self.context)
        else:
            destroy(pointer, self.destroyer, self.context)
        return 0

    @property
    def closed(self) -> bool:
        """Has ``close()`` been called, or was it never made?"""
        return self.closing or self.pointer == NULL

    @property
    def address(self) -> int:
        """The C pointer, for raw.py; ValueError once closed."""
        self.ready()
        return <size_t> self.pointer

    def __dealloc__(self):
        if self.pointer != NULL and not finalizing():
            bury(self.pointer, self.destroyer, self.context)

    def _set_once(self, dict settings not None):
        """Remember the settings, by which descriptors compare (private)."""
        self.settings = tuple(settings.items())

    def __eq__(self, other):
        """Descriptors of one kind and library with equal settings; a handle equals itself only."""
        cdef Owned that
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        that = <Owned> other
        return (self.settings is not None and self.library is that.library
                and self.settings == that.settings)

    def __hash__(self):
        if self.settings is None:
            return object.__hash__(self)
        return hash((type(self), self.settings))

    def __reduce__(self):
        raise TypeError(f"a {type(self).__name__} owns a C object and cannot be pickled")


# ---- messages ------------------------------------------------------------------------------------

cdef void ignore_message(int severity, void* user_data, void* record,
                         const char* text) noexcept nogil:
    pass


def message_sink() -> int:
    """Address of a cudnnCallback_t that ignores messages and, unlike one in Python, may be called
    while the interpreter shuts down."""
    return <size_t> &ignore_message


# ---- handles -------------------------------------------------------------------------------------

cdef int (*context_get_current)(void**) noexcept nogil
cdef int (*context_push_current)(void*) noexcept nogil
cdef int (*context_pop_current)(void**) noexcept nogil
context_get_current = NULL
context_push_current = NULL
context_pop_current = NULL


def use_driver(size_t get_current, size_t push_current, size_t pop_current):
    """Addresses of cuCtxGetCurrent, cuCtxPushCurrent_v2 and cuCtxPopCurrent_v2."""
    global context_get_current, context_push_current, context_pop_current
    context_get_current = <int (*)(void**) noexcept nogil> <void*> get_current
    context_push_current = <int (*)(void*) noexcept nogil> <void*> push_current
    context_pop_current = <int (*)(void**) noexcept nogil> <void*> pop_current


cdef bint push_context(void* context) noexcept nogil:
    """Make a context current if it is not; True if pop_context must follow."""
    cdef void* current = NULL
    if context == NULL or context_get_current == NULL:
        return False
    context_get_current(&current)
    return current != context and context_push_current(context) == 0


cdef void pop_context() noexcept nogil:
    cdef void* popped = NULL
    context_pop_current(&popped)


cdef class Handle(Owned):
    """A library context on one device; a lock in it serialises its calls."""

    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError("no lock for the handle")

    cdef int finish(self) except -1:
        if self.is_foreign():
            self.pointer = NULL
        return Owned.finish(self)

    cdef bint is_foreign(self) noexcept:
        """Is it a GPU's, inherited from the process that this one was forked from?"""
        return self.process != process and self.context != NULL

    def _place(self, device, int device_index):
        """Remember the device and its current CUDA context (private: for the constructors)."""
        self.process = process
        self.device = device
        self.device_index = device_index
        if context_get_current != NULL and self.library.backend == "cuda":
            context_get_current(&self.context)

    def _follow(self, stream):
        """Remember the stream that the library was told to use (private)."""
        self.current_stream = stream

    @property
    def stream(self):
        """The stream that this handle's work is queued on."""
        self.ready()
        return self.current_stream

    def __del__(self):
        if self.pointer != NULL and not finalizing() and not self.is_foreign():
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)

    def __dealloc__(self):
        if self.is_foreign():
            self.pointer = NULL
        if self.lock != NULL:
            PyThread_free_lock(<PyThread_type_lock> self.lock)


cdef class CudnnHandle(Handle):
    """Base of ``cudnn.Handle``."""

    c_type = "cudnnHandle_t"


cdef class CublasHandle(Handle):
    """Base of ``cublas.Handle``; the pointer mode as the library was told."""

    c_type = "cublasHandle_t"


cdef void enter(Handle handle) noexcept nogil:
    PyThread_acquire_lock(<PyThread_type_lock> handle.lock, 1)
    handle.context_pushed = push_context(handle.context)


cdef void leave(Handle handle) noexcept nogil:
    if handle.context_pushed:
        pop_context()
    PyThread_release_lock(<PyThread_type_lock> handle.lock)


# ---- descriptors ---------------------------------------------------------------------------------

cdef bint is_nested(TensorLike desc) noexcept:
    """Does each stride step over all that the smaller ones reach? Then no elements meet."""
    cdef long long reach
    cdef int axis, other
    for axis in range(desc.ndim):
        if desc.dims[axis] == 1:
            continue
        reach = 0
        for other in range(desc.ndim):
            if (desc.steps[other] < desc.steps[axis]
                    or desc.steps[other] == desc.steps[axis] and other < axis):
                reach += (desc.dims[other] - 1) * desc.steps[other]
        if desc.steps[axis] <= reach:
            return False
    return True


cdef class TensorLike(Owned):
    """A descriptor with shape, strides and data type, and the extent of memory they span."""

    def _lay_out(self, int dtype, shape, strides, size_t item_bytes, size_t library_bytes):
        """Remember what was read back from the library (private: for the constructors)."""
        cdef size_t extent = 1
        cdef int axis
        self.dtype = dtype
        self.ndim = len(shape)
        for axis in range(self.ndim):
            self.dims[axis] = shape[axis]
            self.steps[axis] = strides[axis]
            extent += (self.dims[axis] - 1) * self.steps[axis]
        self.extent = max(extent * item_bytes, library_bytes)
        self.item = item_bytes
        self.overlaps_itself = (item_bytes != 0 and not is_nested(self)
                                and sharing.overlaps_itself(self.shape, self.strides))

    @property
    def shape(self) -> tuple:
        """The dimensions, outermost first."""
        cdef int axis
        return tuple([self.dims[axis] for axis in range(self.ndim)])

    @property
    def strides(self) -> tuple:
        """The strides in elements, as the library reports them."""
        cdef int axis
        return tuple([self.steps[axis] for axis in range(self.ndim)])

    @property
    def dtype_code(self) -> int:
        """The cudnnDataType_t number."""
        return self.dtype


cdef class TensorDescriptor(TensorLike):
    """Base of ``cudnn.TensorDescriptor``."""

    c_type = "cudnnTensorDescriptor_t"


cdef class FilterDescriptor(TensorLike):
    """Base of ``cudnn.FilterDescriptor``."""

    c_type = "cudnnFilterDescriptor_t"


cdef class ConvolutionDescriptor(Owned):
    """Base of ``cudnn.ConvolutionDescriptor``."""

    c_type = "cudnnConvolutionDescriptor_t"

    def _remember(self, padding, stride, dilation):
        cdef int axis
        self.ndim = len(padding)
        for axis in range(self.ndim):
            self.axes[axis] = Axis(1, padding[axis], stride[axis], dilation[axis])


cdef class PoolingDescriptor(Owned):
    """Base of ``cudnn.PoolingDescriptor``."""

    c_type = "cudnnPoolingDescriptor_t"

    def _remember(self, window, padding, stride):
        cdef int axis
        self.ndim = len(window)
        for axis in range(self.ndim):
            self.axes[axis] = Axis(window[axis], padding[axis], stride[axis], 1)


cdef class ActivationDescriptor(Owned):
    """Base of ``cudnn.ActivationDescriptor``."""

    c_type = "cudnnActivationDescriptor_t"

    def _set_mode(self, int mode):
        self.mode_code = mode


cdef class DropoutDescriptor(Owned):
    """Base of ``cudnn.DropoutDescriptor``; keeps the random states alive."""

    c_type = "cudnnDropoutDescriptor_t"

    def _keep_states(self, states):
        self.states = states


# ---- memory --------------------------------------------------------------------------------------

cdef class Buffer(Pinnable):
    """A piece of memory of one side: address, size, data type.

    A subclass frees in ``_release()``, which runs once, when no call uses the buffer.
    """

    def _set(self, size_t address, size_t nbytes, str backend not None, int device_index,
             int dtype_code, *, bint writable=True, owner=None):
        """Describe the memory (private: for the constructors)."""
        if self.backend is not None:
            raise ValueError("this buffer is already made; make a new one")
        self.address = address
        self.nbytes = nbytes
        self.backend = backend
        self.device_index = device_index
        self.dtype_code = dtype_code
        self.writable = writable
        self.owner = owner

    cdef int ready(self) except -1:
        if self.backend is None:
            raise ValueError(f"this {type(self).__name__} was never made: call its constructor")
        if self.closing:
            raise ValueError(f"this {type(self).__name__} is closed")
        return 0

    cdef int finish(self) except -1:
        self._release()
        return 0

    def _release(self):
        pass

    def _used_on(self, stream):
        """Work on this memory was queued on a stream; a subclass has freeing wait for it."""
        self.last_stream = stream


# ---- the frame of a call -------------------------------------------------------------------------

cdef int begin(Frame* frame, Library library, Handle handle) except -1:
    frame.library = <PyObject*> library
    frame.handle = NULL
    frame.stream = NULL
    frame.alignment = library.alignment
    frame.count = 0
    frame.span_count = 0
    frame.foreign = False
    if grave_count and not captures:
        empty_graves()
    if handle is not None:
        if handle.process != process and handle.is_foreign():
            raise RuntimeError(FORKED)
        use(frame, handle)
        frame.handle = <PyObject*> handle
        if captures and handle.current_stream is not None and handle.current_stream.capturing:
            handle.current_stream.keep_alive(handle)   # the graph replays work of this handle
    enter_call()
    return 0


cdef int pin(Frame* frame, Pinnable item) except -1:
    if frame.count == MAX_PINS:
        raise ValueError(f"a call can use at most {MAX_PINS} objects")
    item.ready()
    item.pins += 1
    Py_INCREF(item)
    frame.pinned[frame.count] = <PyObject*> item
    frame.count += 1
    return 0


cdef int use(Frame* frame, Owned owned) except -1:
    pin(frame, owned)
    if <PyObject*> owned.library != frame.library:
        raise LibraryMismatch(
            f"{owned!r} belongs to {owned.library!r}, this call runs on {<object> frame.library!r}; "
            "make both with the same library"
        )
    return 0


cdef int end(Frame* frame) except -1:
    leave_call()
    try:
        if frame.foreign:
            keep_foreign(frame)
    finally:
        unpin(frame)
    return 0


cdef int unpin(Frame* frame) except -1:
    cdef int index
    cdef Pinnable item
    for index in range(frame.count):
        item = <Pinnable> frame.pinned[index]
        item.pins -= 1
        if item.closing and item.pins == 0:
            item.finish()
        Py_DECREF(item)
    frame.count = 0
    return 0


cdef int keep_foreign(Frame* frame) except -1:
    """Foreign memory must outlive the queued work: its stream keeps the owners."""
    cdef int index
    stream = stream_of(frame)
    if stream is None:
        return 0
    for index in range(frame.count):
        item = <object> frame.pinned[index]
        if isinstance(item, Buffer) and (<Buffer> item).owner is not None:
            stream.keep_alive((<Buffer> item).owner)
    return 0


cdef object stream_of(Frame* frame):
    """The stream that the call's work is queued on; None if there is none."""
    if frame.handle != NULL:
        return (<Handle> frame.handle).current_stream
    return None if frame.stream == NULL else <object> frame.stream


cdef void* operand(Frame* frame, object value, str name, bint writes, size_t needed, int dtype,
                   TensorLike descriptor) except? NULL:
    """Check one memory argument, pin it and return its address."""
    cdef Buffer buffer
    cdef Span* span
    cdef int device_index
    cdef Library library = <Library> frame.library
    if isinstance(value, Buffer):
        buffer = <Buffer> value
        frame.foreign = frame.foreign or buffer.owner is not None
    else:
        from pycudnn import operands

        buffer = <Buffer?> operands.view(value, name, library.backend, descriptor,
                                         stream_of(frame))
        frame.foreign = True
    pin(frame, buffer)
    if buffer.backend is not library.backend and buffer.backend != library.backend:
        raise LibraryMismatch(
            f"{name} is {buffer.backend} memory, the call runs on {library!r}: "
            "copy it to the other side first"
        )
    if dtype >= 0 and buffer.dtype_code != dtype:
        from pycudnn import dtypes

        raise TypeError(
            f"{name} holds {dtypes.name(buffer.dtype_code)}, "
            f"{'the call takes' if descriptor is None else 'its descriptor says'} "
            f"{dtypes.name(dtype)}"
        )
    if buffer.nbytes < needed:
        raise ValueError(f"{name} needs {needed} bytes, got {buffer.nbytes}")
    if buffer.address % frame.alignment:
        raise ValueError(
            f"{name} must be aligned to {frame.alignment} bytes, it is at {buffer.address:#x}: "
            "copy it to memory of its own"
        )
    if writes and not buffer.writable:
        raise ValueError(f"{name} is written to, but this array is read-only")
    if frame.handle != NULL or frame.stream != NULL:
        device_index = (frame.device_index if frame.handle == NULL
                        else (<Handle> frame.handle).device_index)
        if buffer.device_index != device_index:
            raise LibraryMismatch(
                f"{name} is on device {buffer.device_index}, "
                f"the {'stream' if frame.handle == NULL else 'handle'} on device {device_index}"
            )
        # A graph keeps what it uses, so a capture is told each time.
        stream = stream_of(frame)
        if captures or buffer.last_stream is not stream:
            buffer._used_on(stream)
    span = &frame.spans[frame.span_count]
    span.begin = buffer.address
    # Memory without a type is scratch, which is used whole.
    span.end = span.begin + (needed if needed or dtype >= 0 else buffer.nbytes)
    if span.end > span.begin:
        span.writes = writes
        span.name = <PyObject*> name
        span.descriptor = NULL if descriptor is None else <PyObject*> descriptor
        frame.span_count += 1
    return <void*> buffer.address


cdef inline void* tensor(Frame* frame, TensorLike descriptor, object value, str name,
                         bint writes) except? NULL:
    """An operand that its descriptor describes."""
    if writes and descriptor.overlaps_itself:
        raise ValueError(f"{name} is written to, and elements of {descriptor!r} share memory: "
                         "give it strides that keep them apart")
    return operand(frame, value, name, writes, descriptor.extent, descriptor.dtype, descriptor)


cdef int keep_apart(Frame* frame, str over) except -1:
    """What a call writes shares no memory with its other operands; it may be all of ``over``."""
    cdef int index, other
    cdef Span* first
    cdef Span* second
    for index in range(1, frame.span_count):
        second = &frame.spans[index]
        for other in range(index):
            first = &frame.spans[other]
            if (first.begin < second.end and second.begin < first.end
                    and (first.writes or second.writes)):
                settle(first, second, over)
    return 0


cdef int settle(Span* written, Span* other, str over) except -1:
    """Two spans meet: ValueError unless the call works in place, or no elements are shared."""
    cdef TensorLike first, second
    cdef str place = ""
    if not written.writes:
        written, other = other, written
    if written.descriptor != NULL and other.descriptor != NULL:
        first, second = <TensorLike> written.descriptor, <TensorLike> other.descriptor
        if over is not None and <str> other.name == over:
            if (written.begin == other.begin and first.dtype == second.dtype
                    and same_layout(first, second)):
                return 0
            place = ", unless it is at the same place in the same layout and type"
        if are_apart(first, second, written.begin, other.begin):
            return 0
    raise ValueError(f"{<str> written.name} is written to and must not overlap {<str> other.name}"
                     f"{place}")


cdef struct Neighbours:
    long long first
    long long second
    size_t distance

cdef Neighbours[64] neighbours      # last pairs that were found to lie between each other


cdef bint are_apart(TensorLike first, TensorLike second, size_t begin,
                    size_t other_begin) except -1:
    """Do the elements lie between each other, as channels of one bigger tensor?"""
    cdef size_t distance = other_begin - begin
    cdef Neighbours* known = &neighbours[(first.serial * 31 + second.serial + <long long> distance)
                                         & 63]
    if (known.first == first.serial and known.second == second.serial
            and known.distance == distance and first.serial):
        return True
    if first.item == 0 or second.item == 0 or sharing.overlap(
            places(first, begin), places(second, other_begin)):
        return False
    known[0] = Neighbours(first.serial, second.serial, distance)
    return True


def overlap(TensorLike first not None, size_t begin, TensorLike second not None,
            size_t other_begin) -> bool:
    """Do two described operands at these addresses share memory?"""
    return (begin < other_begin + second.extent and other_begin < begin + first.extent
            and not are_apart(first, second, begin, other_begin))


cdef object places(TensorLike desc, size_t address):
    return sharing.Places(address, desc.shape, tuple([step * desc.item for step in desc.strides]),
                          desc.item)


cdef double number(object value, str name) except? -1.0:
    try:
        return value
    except TypeError:
        raise TypeError(f"{name} must be a real number, got {value!r}") from None
    except OverflowError:
        raise ValueError(f"{name} must fit a double, got a number of "
                         f"{len(str(value))} digits") from None


cdef int as_int(object value, str name, object kind) except? -1:
    """The number of a member of an enum, with an error that names the argument."""
    if type(value) is not kind:
        check_kind(kind, value, name)
    try:
        return PyNumber_Index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int or an enum's member, got {value!r}") from None
    except OverflowError:
        raise ValueError(f"{name} must fit a 32-bit int, got {value!r}") from None


cdef struct Scalars:
    float single[2]
    double wide[2]
    void* alpha
    void* beta


cdef int scale(Scalars* scalars, object alpha, object beta, int dtype) except -1:
    """Scaling factors as cuDNN wants them: double for double tensors, float for all others."""
    scalars.wide[0] = number(alpha, "alpha")
    scalars.wide[1] = number(beta, "beta")
    if dtype == DOUBLE:
        scalars.alpha = &scalars.wide[0]
        scalars.beta = &scalars.wide[1]
    else:
        scalars.single[0] = <float> scalars.wide[0]
        scalars.single[1] = <float> scalars.wide[1]
        scalars.alpha = &scalars.single[0]
        scalars.beta = &scalars.single[1]
    return 0


cdef int fail(Library library, str function, int status, tuple arguments) except -1:
    """Raise the exception for a status; ``arguments`` are (name, object) pairs."""
    library.fail(function, status, arguments)
    raise AssertionError("Library.fail returned")


cdef class ColdCall:
    """A call through ctypes with the same care: ``with ColdCall(library, handle) as call: ...``.

    ``call(function, *arguments)`` pins the owning objects among the arguments, runs the C function
    with the handle locked and raises on a status other than success. A C function that takes a
    stream instead of a handle gets its operands ready for the ``stream``.
    """

    cdef Frame frame
    cdef Library library
    cdef Handle handle
    cdef object stream
    cdef list kept          # names and descriptors of the operands: the frame borrows them

    def __init__(self, Library library, Handle handle=None, stream=None):
        if handle is not None:
            handle.ready()
        if library is None:
            raise TypeError("library must be a Library, got None")
        self.library = library
        self.handle = handle
        self.stream = stream
        self.kept = []

    def __enter__(self):
        begin(&self.frame, self.library, self.handle)
        if self.stream is not None:
            self.frame.stream = <PyObject*> self.stream
            self.frame.device_index = self.stream.device.index
        return self

    def __exit__(self, *exception):
        end(&self.frame)

    def operand(self, value, str name, bint writes, TensorLike descriptor=None,
                size_t needed=0, size_t alignment=0) -> int:
        """Address of a checked memory argument; ``alignment`` defaults to the library's."""
        self.frame.alignment = alignment or self.library.alignment
        self.kept.append((name, descriptor))
        if descriptor is not None:
            return <size_t> tensor(&self.frame, descriptor, value, name, writes)
        return <size_t> operand(&self.frame, value, name, writes, needed, -1, None)

    def keep_apart(self) -> None:
        """ValueError if an operand so far that is written overlaps another one."""
        keep_apart(&self.frame, None)

    def _refuse(self, str function, int index, argument):
        declared = abi.prototype(self.library.name, function).arguments[index]
        raise TypeError(f"{declared.name} of {function} must be a {declared.type}, "
                        f"got {argument!r}")

    def __call__(self, str function not None, *arguments) -> None:
        """Call a C function by name; Owned arguments are passed as their pointers."""
        c_function = self.library.function(function)
        converted = list(arguments)
        owned = []
        for index, argument in enumerate(arguments):
            wanted = c_function.argtypes[index]
            if isinstance(argument, Owned):
                use(&self.frame, argument)
                if HANDLES[argument.c_type] is not wanted:
                    self._refuse(function, index, argument)
                converted[index] = ctypes.cast(<size_t> (<Owned> argument).pointer, wanted)
                owned.append((index, argument))
            elif wanted in HANDLE_TYPES and not isinstance(argument, wanted):  # a typed NULL
                self._refuse(function, index, argument)
        if self.handle is not None:
            with nogil:
                enter(self.handle)
        try:
            status = c_function(*converted)
        finally:
            if self.handle is not None:
                leave(self.handle)
        if status != 0:
            declared = abi.prototype(self.library.name, function).arguments
            fail(self.library, function, status,
                 tuple([(declared[index].name, argument) for index, argument in owned]))


# ---- cuDNN compute calls -------------------------------------------------------------------------

cdef enum:
    DOUBLE = 1          # CUDNN_DATA_DOUBLE
    INT32 = 4           # CUDNN_DATA_INT32
    IDENTITY = 5        # CUDNN_ACTIVATION_IDENTITY
    PRECOMPUTED = 1     # CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM
    FORWARD = 0
    BACKWARD_DATA = 1
    BACKWARD_FILTER = 2

# The three directions stand together and in their own order: convolve() adds one to the first.
cdef enum Slot:
    CONVOLUTION_OUTPUT_2D
    CONVOLUTION_OUTPUT_ND
    POOLING_OUTPUT_2D
    POOLING_OUTPUT_ND
    CONVOLUTION_FORWARD
    CONVOLUTION_BACKWARD_DATA
    CONVOLUTION_BACKWARD_FILTER
    CONVOLUTION_BACKWARD_BIAS
    CONVOLUTION_BIAS_ACTIVATION
    WORKSPACE_FORWARD
    WORKSPACE_BACKWARD_DATA
    WORKSPACE_BACKWARD_FILTER
    ADD_TENSOR
    SET_TENSOR
    SCALE_TENSOR
    TRANSFORM_TENSOR
    ACTIVATION_FORWARD
    ACTIVATION_BACKWARD
    SOFTMAX_FORWARD
    SOFTMAX_BACKWARD
    POOLING_FORWARD
    POOLING_BACKWARD
    DROPOUT_FORWARD
    DROPOUT_BACKWARD
    RESERVE_SPACE


def get_convolution_forward_output_dim(ConvolutionDescriptor conv not None,
                                       TensorDescriptor x_desc not None,
                                       FilterDescriptor w_desc not None) -> tuple:
    """Shape of a convolution's output (cudnnGetConvolution2d/NdForwardOutputDim).

    Per spatial axis: 1 + (x + 2 padding - ((w - 1) dilation + 1)) / stride, rounded down.
    ValueError if the window is larger than the padded input or the ranks differ.
    """
    cdef Frame frame
    cdef int dims[MAX_DIMS]
    cdef int status, axis, count
    cdef str function
    begin(&frame, conv.library, None)
    try:
        use(&frame, conv)
        use(&frame, x_desc)
        use(&frame, w_desc)
        check_ranks(conv, x_desc, w_desc)
        check_window(conv, conv.axes, x_desc, w_desc)
        count = x_desc.ndim
        if count == 4:
            function = "cudnnGetConvolution2dForwardOutputDim"
            status = (<cudnnGetConvolution2dForwardOutputDim_fn> conv.library.get(
                CONVOLUTION_OUTPUT_2D, function))(
                conv.pointer, x_desc.pointer, w_desc.pointer,
                &dims[0], &dims[1], &dims[2], &dims[3])
        else:
            function = "cudnnGetConvolutionNdForwardOutputDim"
            status = (<cudnnGetConvolutionNdForwardOutputDim_fn> conv.library.get(
                CONVOLUTION_OUTPUT_ND, function))(
                conv.pointer, x_desc.pointer, w_desc.pointer, count, dims)
        if status != 0:
            fail(conv.library, function, status,
                 (("conv", conv), ("x_desc", x_desc), ("w_desc", w_desc)))
        return tuple([dims[axis] for axis in range(count)])
    finally:
        end(&frame)


def get_pooling_forward_output_dim(PoolingDescriptor pooling not None,
                                   TensorDescriptor x_desc not None) -> tuple:
    """Shape of a pooling's output (cudnnGetPooling2d/NdForwardOutputDim).

    Per spatial axis: 1 + (x + 2 padding - window) / stride, rounded down.
    ValueError if the window is larger than the padded input or the ranks differ.
    """
    cdef Frame frame
    cdef int dims[MAX_DIMS]
    cdef int status, axis, count
    cdef str function
    begin(&frame, pooling.library, None)
    try:
        use(&frame, pooling)
        use(&frame, x_desc)
        count = x_desc.ndim
        if count != pooling.ndim + 2:
            raise ValueError(f"x_desc has {count} dimensions, {pooling!r} needs "
                             f"{pooling.ndim + 2}: N, C and {pooling.ndim} spatial ones")
        check_window(pooling, pooling.axes, x_desc, None)
        if count == 4:
            function = "cudnnGetPooling2dForwardOutputDim"
            status = (<cudnnGetPooling2dForwardOutputDim_fn> pooling.library.get(
                POOLING_OUTPUT_2D, function))(
                pooling.pointer, x_desc.pointer, &dims[0], &dims[1], &dims[2], &dims[3])
        else:
            function = "cudnnGetPoolingNdForwardOutputDim"
            status = (<cudnnGetPoolingNdForwardOutputDim_fn> pooling.library.get(
                POOLING_OUTPUT_ND, function))(pooling.pointer, x_desc.pointer, count, dims)
        if status != 0:
            fail(pooling.library, function, status, (("pooling", pooling), ("x_desc", x_desc)))
        return tuple([dims[axis] for axis in range(count)])
    finally:
        end(&frame)


cdef int check_window(Owned operation, Axis* axes, TensorDescriptor x_desc,
                      FilterDescriptor w_desc) except -1:
    """The output size in 64 bits: cuDNN computes it in 32 and lets it overflow in silence."""
    cdef long long reach, size
    cdef int axis
    for axis in range(x_desc.ndim - 2):
        reach = axes[axis].window if w_desc is None else w_desc.dims[axis + 2]
        reach = (reach - 1) * axes[axis].dilation + 1
        size = x_desc.dims[axis + 2] + 2 * axes[axis].padding
        if reach > size:
            raise ValueError(f"{operation!r}: window {reach} > padded input {size} "
                             f"in dimension {axis + 2} of {x_desc!r}")
        if 1 + (size - reach) // axes[axis].stride > INT_MAX:
            raise ValueError(f"{operation!r}: the output of {x_desc!r} has more than {INT_MAX} "
                             f"elements in dimension {axis + 2}")
        if size - (reach if w_desc is None else 0) > INT_MAX:
            raise ValueError(f"{operation!r}: {x_desc!r} is padded to {size} elements in dimension "
                             f"{axis + 2}, sizes have 32 bits")
    return 0


cdef int check_ranks(ConvolutionDescriptor conv, TensorLike x_desc, TensorLike w_desc) except -1:
    if x_desc.ndim == conv.ndim + 2 and w_desc.ndim == x_desc.ndim:
        return 0
    raise ValueError(
        f"a {conv.ndim}-d convolution takes {conv.ndim + 2}-d tensors and filters, got "
        f"{x_desc.ndim}-d and {w_desc.ndim}-d (cuDNN has none under 2-d: write a 1-d one as "
        "N, C, 1, W)"
    )


cdef int check_result(TensorLike descriptor) except -1:
    if descriptor.dtype == INT32:
        raise NotSupported(f"cuDNN writes no int32, and reports success: the result of int8 is "
                           f"int8 or float32, got {descriptor!r}")
    return 0


cdef int workspace_size(ConvolutionDescriptor conv, int direction, CudnnHandle handle,
                        TensorLike first, str first_name, TensorLike second, str second_name,
                        TensorLike third, str third_name, int algorithm,
                        size_t* needed) except -1:
    """Bytes that an algorithm needs; the last answer per direction is remembered."""
    cdef WorkspaceAnswer* answer = &conv.answers[direction]
    cdef str function
    cdef int status
    cdef cudnnGetConvolutionForwardWorkspaceSize_fn call
    if (answer.handle == handle.serial and answer.input == first.serial
            and answer.filter == second.serial and answer.output == third.serial
            and answer.algorithm == algorithm):
        needed[0] = answer.needed
        return 0
    if direction == FORWARD:
        function = "cudnnGetConvolutionForwardWorkspaceSize"
    elif direction == BACKWARD_DATA:
        function = "cudnnGetConvolutionBackwardDataWorkspaceSize"
    else:
        function = "cudnnGetConvolutionBackwardFilterWorkspaceSize"
    # The three have one signature; which descriptors come first, second and third differs.
    call = <cudnnGetConvolutionForwardWorkspaceSize_fn> handle.library.get(
        WORKSPACE_FORWARD + direction, function)
    with nogil:
        enter(handle)
        status = call(handle.pointer, first.pointer, second.pointer, conv.pointer, third.pointer,
                      algorithm, needed)
        leave(handle)
    if status != 0:
        fail(handle.library, function, status,
             ((first_name + "_desc", first), (second_name + "_desc", second), ("conv", conv),
              (third_name + "_desc", third), ("algo", algorithm)))
    answer[0] = WorkspaceAnswer(handle.serial, first.serial, second.serial, third.serial,
                                algorithm, needed[0])
    return 0


cdef void* scratch(Frame* frame, object workspace, size_t needed, size_t* size) except? NULL:
    """The workspace: None is none; too small a one is refused before the launch."""
    size[0] = 0
    if workspace is None:
        if needed:
            raise ValueError(f"workspace needs {needed} bytes, got None")
        return NULL
    cdef void* address = operand(frame, workspace, "workspace", True, needed, -1, None)
    size[0] = (<Buffer> frame.pinned[frame.count - 1]).nbytes
    if size[0]:
        frame.spans[frame.span_count - 1].end = <size_t> address + size[0]
    return address


cdef int convolve(int direction, str function, CudnnHandle handle,
                  TensorLike a_desc, a, str a_name, TensorLike b_desc, b, str b_name,
                  ConvolutionDescriptor conv, int algo, workspace,
                  TensorLike c_desc, c, str c_name, alpha, beta) except -1:
    """f(handle, alpha, aDesc, a, bDesc, b, conv, algo, workspace, size, beta, cDesc, c).

    All three directions have this signature, that of cudnnConvolutionForward.
    """
    cdef Frame frame
    cdef Scalars scalars
    cdef void* a_data
    cdef void* b_data
    cdef void* c_data
    cdef void* space
    cdef size_t needed = 0
    cdef size_t space_bytes
    cdef int status
    cdef cudnnConvolutionForward_fn call
    begin(&frame, handle.library, handle)
    try:
        use(&frame, conv)
        use(&frame, a_desc)
        use(&frame, b_desc)
        use(&frame, c_desc)
        check_ranks(conv, a_desc, b_desc)
        check_ranks(conv, a_desc, c_desc)
        check_result(c_desc)
        a_data = tensor(&frame, a_desc, a, a_name, False)
        b_data = tensor(&frame, b_desc, b, b_name, False)
        c_data = tensor(&frame, c_desc, c, c_name, True)
        workspace_size(conv, direction, handle, a_desc, a_name, b_desc, b_name, c_desc, c_name, algo,
                       &needed)
        space = scratch(&frame, workspace, needed, &space_bytes)
        keep_apart(&frame, None)
        scale(&scalars, alpha, beta, c_desc.dtype)
        call = <cudnnConvolutionForward_fn> handle.library.get(
            CONVOLUTION_FORWARD + direction, function)
        with nogil:
            enter(handle)
            status = call(handle.pointer, scalars.alpha, a_desc.pointer, a_data, b_desc.pointer,
                          b_data, conv.pointer, algo, space, space_bytes, scalars.beta,
                          c_desc.pointer, c_data)
            leave(handle)
        if status != 0:
            fail(handle.library, function, status,
                 ((a_name + "_desc", a_desc), (b_name + "_desc", b_desc), ("conv", conv),
                  ("algo", algo), ("workspace bytes", space_bytes), (c_name + "_desc", c_desc)))
    finally:
        end(&frame)
    return 0


def convolution_forward(CudnnHandle handle not None, TensorDescriptor x_desc not None, x,
                        FilterDescriptor w_desc not None, w,
                        ConvolutionDescriptor conv not None, algo, workspace,
                        TensorDescriptor y_desc not None, y, *, alpha=1.0, beta=0.0) -> None:
    """y = alpha conv(x, w) + beta y (cudnnConvolutionForward).

    x (N, C, H, W), w (K, C/groups, R, S), y as ``get_convolution_forward_output_dim`` says.
    ``workspace`` holds at least ``get_convolution_forward_workspace_size`` bytes, or is None.
    int8 is summed in int32: the compute type is that, the result int8, rounded and saturated, or
    float32, and channels come in fours, in NHWC or in the vectors of NCHW_VECT_C.
    NotSupported for an int32 result, which cuDNN does not write.
    """
    convolve(FORWARD, "cudnnConvolutionForward", handle, x_desc, x, "x", w_desc, w, "w",
             conv, as_int(algo, "algo", ConvolutionFwdAlgo), workspace, y_desc, y, "y", alpha, beta)


def convolution_backward_data(CudnnHandle handle not None, FilterDescriptor w_desc not None, w,
                              TensorDescriptor dy_desc not None, dy,
                              ConvolutionDescriptor conv not None, algo, workspace,
                              TensorDescriptor dx_desc not None, dx, *,
                              alpha=1.0, beta=0.0) -> None:
    """dx = alpha (gradient of the input) + beta dx (cudnnConvolutionBackwardData).

    Shapes as in ``convolution_forward``; dy has y's shape, dx has x's.
    """
    convolve(BACKWARD_DATA, "cudnnConvolutionBackwardData", handle, w_desc, w, "w", dy_desc, dy,
             "dy", conv, as_int(algo, "algo", ConvolutionBwdDataAlgo), workspace, dx_desc, dx,
             "dx", alpha, beta)


def convolution_backward_filter(CudnnHandle handle not None, TensorDescriptor x_desc not None, x,
                                TensorDescriptor dy_desc not None, dy,
                                ConvolutionDescriptor conv not None, algo, workspace,
                                FilterDescriptor dw_desc not None, dw, *,
                                alpha=1.0, beta=0.0) -> None:
    """dw = alpha (gradient of the filter) + beta dw (cudnnConvolutionBackwardFilter).

    Shapes as in ``convolution_forward``; dy has y's shape, dw has w's.
    """
    convolve(BACKWARD_FILTER, "cudnnConvolutionBackwardFilter", handle, x_desc, x, "x", dy_desc, dy,
             "dy", conv, as_int(algo, "algo", ConvolutionBwdFilterAlgo), workspace, dw_desc, dw,
             "dw", alpha, beta)


def convolution_bias_activation_forward(
        CudnnHandle handle not None, TensorDescriptor x_desc not None, x,
        FilterDescriptor w_desc not None, w, ConvolutionDescriptor conv not None, algo,
        workspace, TensorDescriptor z_desc not None, z, TensorDescriptor bias_desc not None, bias,
        ActivationDescriptor activation not None, TensorDescriptor y_desc not None, y, *,
        alpha1=1.0, alpha2=0.0) -> None:
    """y = activation(alpha1 conv(x, w) + alpha2 z + bias) (cudnnConvolutionBiasActivationForward).

    bias (1, K, 1, 1); z has y's shape and may be y itself. With the identity activation cuDNN takes
    the algorithm IMPLICIT_PRECOMP_GEMM only: ValueError for another one.
    """
    cdef Frame frame
    cdef Scalars scalars
    cdef void* x_data
    cdef void* w_data
    cdef void* z_data
    cdef void* bias_data
    cdef void* y_data
    cdef void* space
    cdef size_t needed = 0, space_bytes
    cdef int status
    cdef int algorithm = as_int(algo, "algo", ConvolutionFwdAlgo)
    cdef cudnnConvolutionBiasActivationForward_fn call
    begin(&frame, handle.library, handle)
    try:
        use(&frame, conv)
        use(&frame, x_desc)
        use(&frame, w_desc)
        use(&frame, z_desc)
        use(&frame, bias_desc)
        use(&frame, activation)
        use(&frame, y_desc)
        check_ranks(conv, x_desc, w_desc)
        check_result(y_desc)
        if activation.mode_code == IDENTITY and algorithm != PRECOMPUTED:
            raise ValueError("the identity activation takes the algorithm IMPLICIT_PRECOMP_GEMM "
                             f"({PRECOMPUTED}) only, got {algorithm}")
        x_data = tensor(&frame, x_desc, x, "x", False)
        w_data = tensor(&frame, w_desc, w, "w", False)
        z_data = tensor(&frame, z_desc, z, "z", False)
        bias_data = tensor(&frame, bias_desc, bias, "bias", False)
        y_data = tensor(&frame, y_desc, y, "y", True)
        workspace_size(conv, FORWARD, handle, x_desc, "x", w_desc, "w", y_desc, "y", algorithm,
                       &needed)
        space = scratch(&frame, workspace, needed, &space_bytes)
        keep_apart(&frame, "z")
        scale(&scalars, alpha1, alpha2, y_desc.dtype)
        call = <cudnnConvolutionBiasActivationForward_fn> handle.library.get(
            CONVOLUTION_BIAS_ACTIVATION, "cudnnConvolutionBiasActivationForward")
        with nogil:
            enter(handle)
            status = call(handle.pointer, scalars.alpha, x_desc.pointer, x_data, w_desc.pointer,
                          w_data, conv.pointer, algorithm, space, space_bytes, scalars.beta,
                          z_desc.pointer, z_data, bias_desc.pointer, bias_data,
                          activation.pointer, y_desc.pointer, y_data)
            leave(handle)
        if status != 0:
            fail(handle.library, "cudnnConvolutionBiasActivationForward", status,
                 (("x_desc", x_desc), ("w_desc", w_desc), ("conv", conv), ("algo", algorithm),
                  ("workspace bytes", space_bytes), ("z_desc", z_desc), ("bias_desc", bias_desc),
                  ("activation", activation), ("y_desc", y_desc)))
    finally:
        end(&frame)


cdef int map_tensor(int slot, str function, CudnnHandle handle, TensorDescriptor a_desc, a,
                    str a_name, TensorDescriptor c_desc, c, str c_name, str over, alpha,
                    beta) except -1:
    """f(handle, alpha, aDesc, A, beta, cDesc, C): the shape that three functions share."""
    cdef Frame frame
    cdef Scalars scalars
    cdef void* a_data
    cdef void* c_data
    cdef int status
    cdef cudnnAddTensor_fn call
    begin(&frame, handle.library, handle)
    try:
        use(&frame, a_desc)
        use(&frame, c_desc)
        a_data = tensor(&frame, a_desc, a, a_name, False)
        c_data = tensor(&frame, c_desc, c, c_name, True)
        keep_apart(&frame, over)
        scale(&scalars, alpha, beta, a_desc.dtype)
        call = <cudnnAddTensor_fn> handle.library.get(slot, function)
        with nogil:
            enter(handle)
            status = call(handle.pointer, scalars.alpha, a_desc.pointer, a_data, scalars.beta,
                          c_desc.pointer, c_data)
            leave(handle)
        if status != 0:
            fail(handle.library, function, status,
                 ((a_name + "_desc", a_desc), (c_name + "_desc", c_desc)))
    finally:
        end(&frame)
    return 0


def convolution_backward_bias(CudnnHandle handle not None, TensorDescriptor dy_desc not None, dy,
                              TensorDescriptor db_desc not None, db, *,
                              alpha=1.0, beta=0.0) -> None:
    """db = alpha (sum of dy over N, H, W) + beta db (cudnnConvolutionBackwardBias).

    dy (N, K, H, W), db (1, K, 1, 1).
    """
    map_tensor(CONVOLUTION_BACKWARD_BIAS, "cudnnConvolutionBackwardBias", handle, dy_desc, dy,
               "dy", db_desc, db, "db", None, alpha, beta)


def add_tensor(CudnnHandle handle not None, TensorDescriptor a_desc not None, a,
               TensorDescriptor c_desc not None, c, *, alpha=1.0, beta=1.0) -> None:
    """c = alpha a + beta c, a's dimensions of 1 repeated (cudnnAddTensor); c may be a."""
    map_tensor(ADD_TENSOR, "cudnnAddTensor", handle, a_desc, a, "a", c_desc, c, "c", "a", alpha,
               beta)


def transform_tensor(CudnnHandle handle not None, TensorDescriptor x_desc not None, x,
                     TensorDescriptor y_desc not None, y, *, alpha=1.0, beta=0.0) -> None:
    """y = alpha x + beta y, from one layout or data type to another (cudnnTransformTensor).

    y must not overlap x.
    NotSupported from another type to float64: cuDNN reports success there and writes wrong numbers.
    """
    if y_desc.dtype == DOUBLE and x_desc.dtype != DOUBLE:
        raise NotSupported(f"cuDNN cannot convert to float64: x is {x_desc!r}, y is {y_desc!r}")
    map_tensor(TRANSFORM_TENSOR, "cudnnTransformTensor", handle, x_desc, x, "x", y_desc, y, "y",
               None, alpha, beta)


cdef int rescale(int slot, str function, CudnnHandle handle, TensorDescriptor y_desc, y,
                 factor) except -1:
    """f(handle, yDesc, y, factor); the factor is a double for double tensors, else a float."""
    cdef Frame frame
    cdef Scalars scalars
    cdef void* y_data
    cdef int status
    cdef cudnnScaleTensor_fn call
    begin(&frame, handle.library, handle)
    try:
        use(&frame, y_desc)
        y_data = tensor(&frame, y_desc, y, "y", True)
        scale(&scalars, factor, 0.0, y_desc.dtype)
        call = <cudnnScaleTensor_fn> handle.library.get(slot, function)
        with nogil:
            enter(handle)
            status = call(handle.pointer, y_desc.pointer, y_data, scalars.alpha)
            leave(handle)
        if status != 0:
            fail(handle.library, function, status, (("y_desc", y_desc),))
    finally:
        end(&frame)
    return 0


def set_tensor(CudnnHandle handle not None, TensorDescriptor y_desc not None, y, value) -> None:
    """Every element of y becomes ``value`` (cudnnSetTensor)."""
    rescale(SET_TENSOR, "cudnnSetTensor", handle, y_desc, y, number(value, "value"))


def scale_tensor(CudnnHandle handle not None, TensorDescriptor y_desc not None, y,
                 alpha) -> None:
    """y = alpha y (cudnnScaleTensor)."""
    rescale(SCALE_TENSOR, "cudnnScaleTensor", handle, y_desc, y, alpha)


cdef int apply(int slot, str function, CudnnHandle handle, Owned operation,
               TensorDescriptor x_desc, x, TensorDescriptor y_desc, y, str over, alpha,
               beta) except -1:
    """y = alpha f(x) + beta y for a descriptor that says f (activation, pooling)."""
    cdef Frame frame
    cdef Scalars scalars
    cdef void* x_data
    cdef void* y_data
    cdef int status
    cdef cudnnActivationForward_fn call
    begin(&frame, handle.library, handle)
    try:
        use(&frame, operation)
        use(&frame, x_desc)
        use(&frame, y_desc)
        x_data = tensor(&frame, x_desc, x, "x", False)
        y_data = tensor(&frame, y_desc, y, "y", True)
        keep_apart(&frame, over)
        scale(&scalars, alpha, beta, y_desc.dtype)
        call = <cudnnActivationForward_fn> handle.library.get(slot, function)
        with nogil:
            enter(handle)
            status = call(handle.pointer, operation.pointer, scalars.alpha, x_desc.pointer,
                          x_data, scalars.beta, y_desc.pointer, y_data)
            leave(handle)
        if status != 0:
            fail(handle.library, function, status,
                 (("descriptor", operation), ("x_desc", x_desc), ("y_desc", y_desc)))
    finally:
        end(&frame)
    return 0


cdef int apply_backward(int slot, str function, CudnnHandle handle, Owned operation,
                        TensorDescriptor y_desc, y, TensorDescriptor dy_desc, dy,
                        TensorDescriptor x_desc, x, TensorDescriptor dx_desc, dx, str over,
                        alpha, beta) except -1:
    """dx = alpha f'(x, y) dy + beta dx for a descriptor that says f (activation, pooling)."""
    cdef Frame frame
    cdef Scalars scalars
    cdef void* y_data
    cdef void* dy_data
    cdef void* x_data
    cdef void* dx_data
    cdef int status
    cdef cudnnActivationBackward_fn call
    begin(&frame, handle.library, handle)
    try:
        use(&frame, operation)
        use(&frame, y_desc)
        use(&frame, dy_desc)
        use(&frame, x_desc)
        use(&frame, dx_desc)
        y_data = tensor(&frame, y_desc, y, "y", False)
        dy_data = tensor(&frame, dy_desc, dy, "dy", False)
        x_data = tensor(&frame, x_desc, x, "x", False)
        dx_data = tensor(&frame, dx_desc, dx, "dx", True)
        keep_apart(&frame, over)
        scale(&scalars, alpha, beta, dx_desc.dtype)
        call = <cudnnActivationBackward_fn> handle.library.get(slot, function)
        with nogil:
            enter(handle)
            status = call(handle.pointer, operation.pointer, scalars.alpha, y_desc.pointer,
                          y_data, dy_desc.pointer, dy_data, x_desc.pointer, x_data, scalars.beta,
                          dx_desc.pointer, dx_data)
            leave(handle)
        if status != 0:
            fail(handle.library, function, status,
                 (("descriptor", operation), ("y_desc", y_desc), ("dy_desc", dy_desc),
                  ("x_desc", x_desc), ("dx_desc", dx_desc)))
    finally:
        end(&frame)
    return 0


def activation_forward(CudnnHandle handle not None, ActivationDescriptor activation not None,
                       TensorDescriptor x_desc not None, x, TensorDescriptor y_desc not None, y,
                       *, alpha=1.0, beta=0.0) -> None:
    """y = alpha f(x) + beta y, element by element (cudnnActivationForward); y may be x."""
    apply(ACTIVATION_FORWARD, "cudnnActivationForward", handle, activation, x_desc, x, y_desc, y,
          "x", alpha, beta)


def activation_backward(CudnnHandle handle not None, ActivationDescriptor activation not None,
                        TensorDescriptor y_desc not None, y, TensorDescriptor dy_desc not None, dy,
                        TensorDescriptor x_desc not None, x, TensorDescriptor dx_desc not None, dx,
                        *, alpha=1.0, beta=0.0) -> None:
    """dx = alpha f'(x) dy + beta dx (cudnnActivationBackward); dx may be dy."""
    apply_backward(ACTIVATION_BACKWARD, "cudnnActivationBackward", handle, activation, y_desc, y,
                   dy_desc, dy, x_desc, x, dx_desc, dx, "dy", alpha, beta)


cdef int check_pooled(PoolingDescriptor pooling, TensorDescriptor x_desc,
                      TensorDescriptor y_desc) except -1:
    """cuDNN does not check the output's spatial size; the last pair that fits is remembered."""
    if pooling.fitting_input == x_desc.serial and pooling.fitting_output == y_desc.serial:
        return 0
    expected = get_pooling_forward_output_dim(pooling, x_desc)
    if y_desc.shape != expected:
        raise ValueError(f"the output of {pooling!r} has shape {expected}, got {y_desc!r}")
    pooling.fitting_input = x_desc.serial
    pooling.fitting_output = y_desc.serial
    return 0


def pooling_forward(CudnnHandle handle not None, PoolingDescriptor pooling not None,
                    TensorDescriptor x_desc not None, x, TensorDescriptor y_desc not None, y,
                    *, alpha=1.0, beta=0.0) -> None:
    """y = alpha pool(x) + beta y (cudnnPoolingForward).

    x (N, C, H, W), y as ``get_pooling_forward_output_dim`` says.
    """
    check_pooled(pooling, x_desc, y_desc)
    apply(POOLING_FORWARD, "cudnnPoolingForward", handle, pooling, x_desc, x, y_desc, y,
          None, alpha, beta)


def pooling_backward(CudnnHandle handle not None, PoolingDescriptor pooling not None,
                     TensorDescriptor y_desc not None, y, TensorDescriptor dy_desc not None, dy,
                     TensorDescriptor x_desc not None, x, TensorDescriptor dx_desc not None, dx,
                     *, alpha=1.0, beta=0.0) -> None:
    """dx = alpha (gradient of the input) + beta dx (cudnnPoolingBackward)."""
    check_pooled(pooling, x_desc, y_desc)
    apply_backward(POOLING_BACKWARD, "cudnnPoolingBackward", handle, pooling, y_desc, y, dy_desc,
                   dy, x_desc, x, dx_desc, dx, None, alpha, beta)


cdef int check_softmax(int kind, int mode, TensorDescriptor first,
                       TensorDescriptor second) except -1:
    if not 0 <= kind <= 2:
        raise ValueError(f"algorithm must be a SoftmaxAlgorithm (0, 1 or 2), got {kind}")
    if not 0 <= mode <= 1:
        raise ValueError(f"mode must be a SoftmaxMode (0 or 1), got {mode}")
    # cuDNN reports success for other layouts and writes to the wrong places.
    if not same_layout(first, second):
        raise ValueError(f"softmax needs tensors of one shape and layout, got {first!r} "
                         f"and {second!r}")
    if not is_packed(first, False) and not is_packed(first, True):
        raise ValueError(f"softmax needs packed NCHW or NHWC tensors, got {first!r}")
    return 0


cdef bint is_packed(TensorDescriptor desc, bint channels_last) noexcept:
    """Do the elements follow one another, rows last or channels last?"""
    cdef long long step = 1
    cdef int place, axis
    for place in range(desc.ndim - 1, -1, -1):
        axis = place
        if channels_last and place > 0:
            axis = 1 if place == desc.ndim - 1 else place + 1
        if desc.dims[axis] != 1 and desc.steps[axis] != step:
            return False
        step *= desc.dims[axis]
    return True


cdef bint same_layout(TensorLike first, TensorLike second) noexcept:
    cdef int axis
    if first.ndim != second.ndim:
        return False
    for axis in range(first.ndim):
        if first.dims[axis] != second.dims[axis] or first.steps[axis] != second.steps[axis]:
            return False
    return True


def softmax_forward(CudnnHandle handle not None, algorithm, mode,
                    TensorDescriptor x_desc not None, x, TensorDescriptor y_desc not None, y,
                    *, alpha=1.0, beta=0.0) -> None:
    """y = alpha softmax(x) + beta y (cudnnSoftmaxForward); y may be x.

    Mode INSTANCE normalises over C, H, W, mode CHANNEL over C at each N, H, W; algorithm LOG gives
    the logarithm.
    """
    cdef Frame frame
    cdef Scalars scalars
    cdef void* x_data
    cdef void* y_data
    cdef int status
    cdef int kind = as_int(algorithm, "algorithm", SoftmaxAlgorithm)
    cdef int over = as_int(mode, "mode", SoftmaxMode)
    cdef cudnnSoftmaxForward_fn call
    check_softmax(kind, over, x_desc, y_desc)
    begin(&frame, handle.library, handle)
    try:
        use(&frame, x_desc)
        use(&frame, y_desc)
        x_data = tensor(&frame, x_desc, x, "x", False)
        y_data = tensor(&frame, y_desc, y, "y", True)
        keep_apart(&frame, "x")
        scale(&scalars, alpha, beta, y_desc.dtype)
        call = <cudnnSoftmaxForward_fn> handle.library.get(SOFTMAX_FORWARD, "cudnnSoftmaxForward")
        with nogil:
            enter(handle)
            status = call(handle.pointer, kind, over, scalars.alpha, x_desc.pointer, x_data,
                          scalars.beta, y_desc.pointer, y_data)
            leave(handle)
        if status != 0:
            fail(handle.library, "cudnnSoftmaxForward", status,
                 (("algorithm", kind), ("mode", over), ("x_desc", x_desc),
                  ("y_desc", y_desc)))
    finally:
        end(&frame)


def softmax_backward(CudnnHandle handle not None, algorithm, mode,
                     TensorDescriptor y_desc not None, y, TensorDescriptor dy_desc not None, dy,
                     TensorDescriptor dx_desc not None, dx, *, alpha=1.0, beta=0.0) -> None:
    """dx = alpha (gradient of the input) + beta dx (cudnnSoftmaxBackward).

    y is the forward's; dx may be dy.
    """
    cdef Frame frame
    cdef Scalars scalars
    cdef void* y_data
    cdef void* dy_data
    cdef void* dx_data
    cdef int status
    cdef int kind = as_int(algorithm, "algorithm", SoftmaxAlgorithm)
    cdef int over = as_int(mode, "mode", SoftmaxMode)
    cdef cudnnSoftmaxBackward_fn call
    check_softmax(kind, over, y_desc, dy_desc)
    check_softmax(kind, over, y_desc, dx_desc)
    begin(&frame, handle.library, handle)
    try:
        use(&frame, y_desc)
        use(&frame, dy_desc)
        use(&frame, dx_desc)
        y_data = tensor(&frame, y_desc, y, "y", False)
        dy_data = tensor(&frame, dy_desc, dy, "dy", False)
        dx_data = tensor(&frame, dx_desc, dx, "dx", True)
        keep_apart(&frame, "dy")
        scale(&scalars, alpha, beta, dx_desc.dtype)
        call = <cudnnSoftmaxBackward_fn> handle.library.get(
            SOFTMAX_BACKWARD, "cudnnSoftmaxBackward")
        with nogil:
            enter(handle)
            status = call(handle.pointer, kind, over, scalars.alpha, y_desc.pointer, y_data,
                          dy_desc.pointer, dy_data, scalars.beta, dx_desc.pointer, dx_data)
            leave(handle)
        if status != 0:
            fail(handle.library, "cudnnSoftmaxBackward", status,
                 (("algorithm", kind), ("mode", over), ("y_desc", y_desc),
                  ("dy_desc", dy_desc), ("dx_desc", dx_desc)))
    finally:
        end(&frame)


def dropout_forward(CudnnHandle handle not None, DropoutDescriptor dropout not None,
                    TensorDescriptor x_desc not None, x, TensorDescriptor y_desc not None, y,
                    reserve_space) -> None:
    """y = x with elements zeroed at random, the rest scaled by 1 / (1 - p) (cudnnDropoutForward).

    y may be x. ``reserve_space`` holds ``dropout_get_reserve_space_size(x_desc)`` bytes and goes to
    the backward call.
    """
    drop(DROPOUT_FORWARD, "cudnnDropoutForward", handle, dropout, x_desc, x, "x", y_desc, y, "y",
         reserve_space)


def dropout_backward(CudnnHandle handle not None, DropoutDescriptor dropout not None,
                     TensorDescriptor dy_desc not None, dy, TensorDescriptor dx_desc not None, dx,
                     reserve_space) -> None:
    """dx = dy where the forward call kept x, scaled as there, else 0 (cudnnDropoutBackward).

    dx may be dy.
    """
    drop(DROPOUT_BACKWARD, "cudnnDropoutBackward", handle, dropout, dy_desc, dy, "dy", dx_desc, dx,
         "dx", reserve_space)


cdef int drop(int slot, str function, CudnnHandle handle, DropoutDescriptor dropout,
              TensorDescriptor a_desc, a, str a_name, TensorDescriptor c_desc, c, str c_name,
              reserve_space) except -1:
    cdef Frame frame
    cdef void* a_data
    cdef void* c_data
    cdef void* reserve
    cdef size_t needed = 0
    cdef int status
    cdef cudnnDropoutForward_fn call
    begin(&frame, handle.library, handle)
    try:
        use(&frame, dropout)
        use(&frame, a_desc)
        use(&frame, c_desc)
        status = (<cudnnDropoutGetReserveSpaceSize_fn> handle.library.get(
            RESERVE_SPACE, "cudnnDropoutGetReserveSpaceSize"))(a_desc.pointer, &needed)
        if status != 0:
            fail(handle.library, "cudnnDropoutGetReserveSpaceSize", status,
                 ((a_name + "_desc", a_desc),))
        a_data = tensor(&frame, a_desc, a, a_name, False)
        c_data = tensor(&frame, c_desc, c, c_name, True)
        reserve = operand(&frame, reserve_space, "reserve_space", True, needed, -1, None)
        # The states live as long as the queued work: their buffer is an operand too.
        operand(&frame, dropout.states, "states", True, 0, -1, None)
        keep_apart(&frame, a_name)
        call = <cudnnDropoutForward_fn> handle.library.get(slot, function)
        with nogil:
            enter(handle)
            status = call(handle.pointer, dropout.pointer, a_desc.pointer, a_data, c_desc.pointer,
                          c_data, reserve, needed)
            leave(handle)
        if status != 0:
            fail(handle.library, function, status,
                 ((a_name + "_desc", a_desc), (c_name + "_desc", c_desc), ("dropout", dropout),
                  ("reserve bytes", needed)))
    finally:
        end(&frame)
    return 0
