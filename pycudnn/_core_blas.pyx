# cython: language_level=3, boundscheck=False, wraparound=False
"""The cuBLAS compute calls: one function each for single and double precision.

A call runs in the steps of ``_core``: pin, check, call without the GIL, unpin. Matrices are
column-major, and every size, leading dimension, increment and stride is checked against the memory
of its operand before the call. Where the sizes leave nothing to do, no operand is touched.

S and D functions differ in the C type behind their pointers only, so both go through the function
pointer type of the S one.
"""

import threading
from numbers import Number

from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_Check
from cpython.number cimport PyNumber_Index
from libc.limits cimport INT_MAX, INT_MIN, LLONG_MAX
from libc.string cimport memcpy

from pycudnn._core cimport (
    Buffer,
    CublasHandle,
    Frame,
    Library,
    begin,
    end,
    enter,
    fail,
    keep_apart,
    leave,
    number,
    operand,
)
from pycudnn._prototypes cimport *

from pycudnn import dtypes
from pycudnn.abi.cublas_enums import ComputeType, CudaDataType, GemmAlgo, Operation
from pycudnn.abi.members import check_kind

cdef enum:
    HOST = 0            # CUBLAS_POINTER_MODE_HOST
    DEVICE = 1          # CUBLAS_POINTER_MODE_DEVICE
    MODE_CHANGED = -1   # no cublasStatus_t: another thread changed the mode after our checks
    PLAIN = -1          # no cublasComputeType_t: not a gemm_ex

# Data types by their cudnnDataType_t number, as buffers have them.
cdef enum:
    FLOAT = 0
    DOUBLE = 1
    HALF = 2
    INT8 = 3
    INT32 = 4
    BFLOAT16 = 9

cdef size_t[10] ITEM_BYTES = [4, 8, 2, 1, 4, 0, 0, 0, 0, 2]
cdef int[10] CUDA_TYPE = [0, 1, 2, 3, 10, -1, -1, -1, -1, 14]      # cudaDataType_t

cdef enum Slot:
    SGEMM
    DGEMM
    GEMM_EX
    SGEMM_STRIDED_BATCHED
    DGEMM_STRIDED_BATCHED
    SGEAM
    DGEAM
    SGEMV
    DGEMV
    SGER
    DGER
    SAXPY
    DAXPY
    SSCAL
    DSCAL
    SCOPY
    DCOPY
    SSWAP
    DSWAP
    SDOT
    DDOT
    SNRM2
    DNRM2
    SASUM
    DASUM
    ISAMAX
    IDAMAX
    ISAMIN
    IDAMIN
    SET_POINTER_MODE


# ---- the handle ----------------------------------------------------------------------------------

cdef class BlasHandle(CublasHandle):
    """Base of ``cublas.Handle``: pointer mode and workspace, which every call depends on.

    Who holds ``mode_lock`` sees one pointer mode.
    """

    cdef readonly Buffer workspace
    cdef readonly object mode_lock

    def __cinit__(self):
        self.mode_lock = threading.RLock()

    def _point(self, int mode):
        """Set the pointer mode (private): library and handle change at once for other threads."""
        cdef Frame frame
        cdef int status
        cdef cublasSetPointerMode_v2_fn call
        begin(&frame, self.library, self)
        try:
            call = <cublasSetPointerMode_v2_fn> self.library.get(SET_POINTER_MODE, "cublasSetPointerMode_v2")
            with nogil:
                enter(self)
                status = call(self.pointer, mode)
                if status == 0:
                    self.pointer_mode_code = mode
                leave(self)
            if status != 0:
                fail(self.library, "cublasSetPointerMode_v2", status, (("mode", mode),))
        finally:
            end(&frame)

    def _lend(self, Buffer workspace):
        """Remember the workspace that the library was told, or None (private)."""
        self.workspace = workspace


cdef int start(Frame* frame, BlasHandle handle) except -1:
    """``begin``, with the workspace: the library was told of it, so each call uses it."""
    begin(frame, handle.library, handle)
    if handle.workspace is not None:
        try:
            operand(frame, handle.workspace, "workspace", True, 0, -1, None)
        except BaseException:
            end(frame)
            raise
    return 0


cdef int enter_as(BlasHandle handle, int mode) noexcept nogil:
    """Lock the handle; 0 if its pointer mode still is the one the scalars were made for."""
    enter(handle)
    return 0 if handle.pointer_mode_code == mode else MODE_CHANGED


cdef int refuse(Library library, str function, int status, tuple arguments) except -1:
    if status == MODE_CHANGED:
        raise RuntimeError(
            f"{function}: another thread changed the handle's pointer_mode during this call; "
            "give each thread its own handle"
        )
    return fail(library, function, status, arguments)


# ---- checked arguments ---------------------------------------------------------------------------

cdef long long integer(object value, str name, long long low, long long high,
                       str wanted) except? -1:
    cdef long long result
    cdef int overflow = 0
    if not PyLong_Check(value):
        try:
            value = PyNumber_Index(value)
        except TypeError:
            raise TypeError(f"{name} must be {wanted}, got {value!r}") from None
    result = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or not low <= result <= high:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    return result


cdef int size(object value, str name) except -1:
    return <int> integer(value, name, 0, INT_MAX, "an int from 0 to 2147483647")


cdef int operation(object value, str name) except -1:
    if type(value) is not Operation:
        check_kind(Operation, value, name)
    return <int> integer(value, name, 0, 2, "an Operation: N (0), T (1) or C (2)")


cdef int leading(object value, str name, int rows) except -1:
    """A leading dimension: elements from one column to the next, at least the rows stored."""
    cdef int result = size(value, name)
    if result < max(1, rows):
        raise ValueError(f"{name} must be at least {max(1, rows)}, the rows of the matrix as "
                         f"stored, got {result}")
    return result


cdef int increment(object value, str name) except 0:
    cdef int result = <int> integer(value, name, -INT_MAX, INT_MAX, "a non-zero 32-bit int")
    if result == 0:
        raise ValueError(f"{name} must be a non-zero 32-bit int, got 0")
    return result


cdef int forward_increment(object value, str name) except 0:
    """Of a vector alone: for one that is not positive cuBLAS returns success and does nothing."""
    return <int> integer(value, name, 1, INT_MAX, "an int from 1 to 2147483647")


cdef inline size_t matrix(int rows, int columns, int ld) noexcept:
    """Elements from the first to the last one of a column-major matrix; below 2**62."""
    return <size_t> ld * <size_t> (columns - 1) + rows if rows and columns else 0


cdef inline size_t vector(int n, int inc) noexcept:
    return <size_t> (n - 1) * <size_t> abs(<long long> inc) + 1 if n else 0


cdef size_t repeated(size_t elements, str name, long long stride, int count) except? 0:
    """Elements that ``count`` matrices span, one every ``stride`` elements."""
    cdef size_t steps = <size_t> (count - 1)
    if elements == 0 or steps == 0:
        return elements
    if <size_t> stride > (<size_t> LLONG_MAX - elements) // steps:
        raise ValueError(f"{name} = {stride} times batch_count = {count} is more than any memory")
    return elements + <size_t> stride * steps


cdef bint are_apart(int rows, int ld, size_t span, long long stride, int count) noexcept:
    """Do matrices lie one behind the other, or side by side in the columns of a bigger one?

    Where they are apart in still other ways, the general way finds it.
    """
    if <size_t> stride >= span:
        return True
    return rows <= stride <= ld and stride * (count - 1) + rows <= ld


cdef void* memory(Frame* frame, object value, str name, bint writes, size_t elements,
                  int dtype) except? NULL:
    """An operand of so many elements."""
    if elements > <size_t> LLONG_MAX // ITEM_BYTES[dtype]:
        raise ValueError(f"{name} would span {elements} elements, more than any memory")
    return operand(frame, value, name, writes, elements * ITEM_BYTES[dtype], dtype, None)


cdef union Value:
    float single
    double wide
    int whole
    unsigned short half


cdef void* scalar(Frame* frame, int mode, object value, str name, int dtype,
                  Value* room) except? NULL:
    """A scaling factor: a Python number put into ``room``, or in device mode a buffer."""
    cdef bytes half
    if mode == DEVICE:
        if isinstance(value, Number):
            raise TypeError(
                f"{name} is the number {value!r}, but the handle's pointer_mode is DEVICE: pass a "
                f"buffer that holds one {dtypes.name(dtype)}"
            )
        return memory(frame, value, name, False, 1, dtype)
    if isinstance(value, Buffer) or getattr(value, "shape", ()):
        raise TypeError(
            f"{name} is {value!r}, but the handle's pointer_mode is HOST: pass a number, or set "
            "pointer_mode to DEVICE"
        )
    if dtype == DOUBLE:
        room.wide = number(value, name)
    elif dtype == FLOAT:
        room.single = <float> number(value, name)
    elif dtype == HALF:
        half = dtypes.scalar_bytes(number(value, name), HALF)
        memcpy(&room.half, <const char*> half, sizeof(room.half))
    else:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        room.whole = <int> integer(value, name, INT_MIN, INT_MAX,
                                   "a whole number of 32 bits for this compute_type")
    return room


cdef void* result(Frame* frame, int mode, object out, int dtype, Value* room) except? NULL:
    """Where a result goes: into ``room``, or in device mode into the buffer ``out``."""
    if mode == DEVICE:
        if out is None:
            raise TypeError(
                f"out is missing: the handle's pointer_mode is DEVICE, pass a buffer for one "
                f"{dtypes.name(dtype)}"
            )
        return memory(frame, out, "out", True, 1, dtype)
    if out is not None:
        raise TypeError(
            "out must be None: the handle's pointer_mode is HOST and the result is returned; set "
            "pointer_mode to DEVICE to have it in a buffer"
        )
    return room


# ---- matrix products -----------------------------------------------------------------------------

cdef struct Types:
    int a
    int b
    int c
    int scalar
    int compute         # cublasComputeType_t, or PLAIN
    int algo


cdef struct Batch:
    long long stride_a
    long long stride_b
    long long stride_c
    int count


cdef Types SINGLE = Types(FLOAT, FLOAT, FLOAT, FLOAT, PLAIN, 0)
cdef Types WIDE = Types(DOUBLE, DOUBLE, DOUBLE, DOUBLE, PLAIN, 0)


cdef int multiply(int slot, str function, BlasHandle handle, transa, transb, m, n, k, alpha, a,
                  lda, b, ldb, beta, c, ldc, Types* types, Batch* batch) except -1:
    """C = alpha op(A) op(B) + beta C, once or (``batch``) many times."""
    cdef Frame frame
    cdef Value alpha_room, beta_room
    cdef int op_a = operation(transa, "transa"), op_b = operation(transb, "transb")
    cdef int rows = size(m, "m"), columns = size(n, "n"), inner = size(k, "k")
    cdef int a_rows = inner if op_a else rows, b_rows = columns if op_b else inner
    cdef int a_columns = rows if op_a else inner, b_columns = inner if op_b else columns
    cdef int ld_a = leading(lda, "lda", a_rows)
    cdef int ld_b = leading(ldb, "ldb", b_rows)
    cdef int ld_c = leading(ldc, "ldc", rows)
    cdef size_t a_span = matrix(a_rows, a_columns, ld_a)
    cdef size_t b_span = matrix(b_rows, b_columns, ld_b)
    cdef size_t c_span = matrix(rows, columns, ld_c)
    cdef int mode, status
    cdef void* address
    cdef void* a_data
    cdef void* b_data
    cdef void* c_data
    cdef void* alpha_data
    cdef void* beta_data
    if batch != NULL and batch.count:
        if batch.count > 1 and not are_apart(rows, ld_c, c_span, batch.stride_c, batch.count):
            raise ValueError(f"stride_c must keep the results apart, got {batch.stride_c} for "
                             f"blocks that span {c_span} elements")
        a_span = repeated(a_span, "stride_a", batch.stride_a, batch.count)
        b_span = repeated(b_span, "stride_b", batch.stride_b, batch.count)
        c_span = repeated(c_span, "stride_c", batch.stride_c, batch.count)
    start(&frame, handle)
    try:
        if c_span == 0 or batch != NULL and batch.count == 0:
            return 0
        mode = handle.pointer_mode_code
        a_data = memory(&frame, a, "a", False, a_span, types.a)
        b_data = memory(&frame, b, "b", False, b_span, types.b)
        c_data = memory(&frame, c, "c", True, c_span, types.c)
        keep_apart(&frame, None)
        alpha_data = scalar(&frame, mode, alpha, "alpha", types.scalar, &alpha_room)
        beta_data = scalar(&frame, mode, beta, "beta", types.scalar, &beta_room)
        address = handle.library.get(slot, function)
        with nogil:
            status = enter_as(handle, mode)
            if status != 0:
                pass
            elif batch != NULL:
                status = (<cublasSgemmStridedBatched_fn> address)(
                    handle.pointer, op_a, op_b, rows, columns, inner, <float*> alpha_data,
                    <float*> a_data, ld_a, batch.stride_a, <float*> b_data, ld_b, batch.stride_b,
                    <float*> beta_data, <float*> c_data, ld_c, batch.stride_c, batch.count)
            elif types.compute == PLAIN:
                status = (<cublasSgemm_v2_fn> address)(
                    handle.pointer, op_a, op_b, rows, columns, inner, <float*> alpha_data,
                    <float*> a_data, ld_a, <float*> b_data, ld_b, <float*> beta_data,
                    <float*> c_data, ld_c)
            else:
                status = (<cublasGemmEx_fn> address)(
                    handle.pointer, op_a, op_b, rows, columns, inner, alpha_data,
                    a_data, CUDA_TYPE[types.a], ld_a, b_data, CUDA_TYPE[types.b], ld_b, beta_data,
                    c_data, CUDA_TYPE[types.c], ld_c, types.compute, types.algo)
            leave(handle)
        if status != 0:
            refuse(handle.library, function, status,
                   (("transa", op_a), ("transb", op_b), ("m", rows), ("n", columns), ("k", inner),
                    ("a", a), ("lda", ld_a), ("b", b), ("ldb", ld_b), ("c", c), ("ldc", ld_c)))
    finally:
        end(&frame)
    return 0


def sgemm(BlasHandle handle not None, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c,
          ldc) -> None:
    """C = alpha op(A) op(B) + beta C in float32 (cublasSgemm); op(A) m x k, op(B) k x n, C m x n.

    Column-major with leading dimensions; with beta == 0, C is not read.
    """
    multiply(SGEMM, "cublasSgemm_v2", handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta,
             c, ldc, &SINGLE, NULL)


def dgemm(BlasHandle handle not None, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c,
          ldc) -> None:
    """``sgemm`` in float64 (cublasDgemm)."""
    multiply(DGEMM, "cublasDgemm_v2", handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta,
             c, ldc, &WIDE, NULL)


cdef Batch batch_of(stride_a, stride_b, stride_c, batch_count) except *:
    cdef str wanted = "an int from 0 to 2**63 - 1"
    cdef Batch batch = Batch(
        integer(stride_a, "stride_a", 0, LLONG_MAX, wanted),
        integer(stride_b, "stride_b", 0, LLONG_MAX, wanted),
        integer(stride_c, "stride_c", 0, LLONG_MAX, wanted),
        size(batch_count, "batch_count"),
    )
    return batch


def sgemm_strided_batched(BlasHandle handle not None, transa, transb, m, n, k, alpha, a, lda,
                          stride_a, b, ldb, stride_b, beta, c, ldc, stride_c,
                          batch_count) -> None:
    """``batch_count`` products as in ``sgemm`` (cublasSgemmStridedBatched).

    Strides in elements from one matrix to the next; 0 uses the same A or B each time.
    """
    cdef Batch batch = batch_of(stride_a, stride_b, stride_c, batch_count)
    multiply(SGEMM_STRIDED_BATCHED, "cublasSgemmStridedBatched", handle, transa, transb, m, n, k,
             alpha, a, lda, b, ldb, beta, c, ldc, &SINGLE, &batch)


def dgemm_strided_batched(BlasHandle handle not None, transa, transb, m, n, k, alpha, a, lda,
                          stride_a, b, ldb, stride_b, beta, c, ldc, stride_c,
                          batch_count) -> None:
    """``sgemm_strided_batched`` in float64 (cublasDgemmStridedBatched)."""
    cdef Batch batch = batch_of(stride_a, stride_b, stride_c, batch_count)
    multiply(DGEMM_STRIDED_BATCHED, "cublasDgemmStridedBatched", handle, transa, transb, m, n, k,
             alpha, a, lda, b, ldb, beta, c, ldc, &WIDE, &batch)


# What gemm_ex takes as a type: the CudaDataType, the dtype or its name.
cdef dict MATRIX_TYPES = {}
for _code in (FLOAT, DOUBLE, HALF, BFLOAT16, INT8, INT32):
    for _key in (CudaDataType(CUDA_TYPE[_code]), dtypes.name(_code), dtypes.to_numpy(_code)):
        MATRIX_TYPES[_key] = _code

cdef dict SCALAR_TYPES = {
    ComputeType.COMPUTE_16F: HALF,
    ComputeType.COMPUTE_16F_PEDANTIC: HALF,
    ComputeType.COMPUTE_64F: DOUBLE,
    ComputeType.COMPUTE_64F_PEDANTIC: DOUBLE,
    ComputeType.COMPUTE_64F_EMULATED_FIXEDPOINT: DOUBLE,
    ComputeType.COMPUTE_32I: INT32,
    ComputeType.COMPUTE_32I_PEDANTIC: INT32,
}
cdef frozenset COMPUTE_TYPES = frozenset(ComputeType)
cdef frozenset ALGORITHMS = frozenset(GemmAlgo)


cdef int matrix_type(object value, str name) except -1:
    try:
        return MATRIX_TYPES[value]
    except (KeyError, TypeError):
        known = ", ".join(str(key) for key in MATRIX_TYPES if isinstance(key, str))
        raise ValueError(f"{name} must be one of {known} or their CudaDataType, "
                         f"got {value!r}") from None


def gemm_ex(BlasHandle handle not None, transa, transb, m, n, k, alpha, a, a_type, lda, b,
            b_type, ldb, beta, c, c_type, ldc, compute_type=None,
            algo=GemmAlgo.DEFAULT) -> None:
    """``sgemm`` with types of one's own (cublasGemmEx).

    Types: a CudaDataType or the name of a dtype. ``compute_type`` None: COMPUTE_64F for float64,
    COMPUTE_32I for an int32 C, else COMPUTE_32F. alpha and beta are taken in the compute type.
    CublasNotSupported for a combination that cuBLAS does not have.
    """
    cdef Types types
    types.a = matrix_type(a_type, "a_type")
    types.b = matrix_type(b_type, "b_type")
    types.c = matrix_type(c_type, "c_type")
    if compute_type is None:
        if types.c == DOUBLE:
            compute_type = ComputeType.COMPUTE_64F
        elif types.c == INT32:
            compute_type = ComputeType.COMPUTE_32I
        else:
            compute_type = ComputeType.COMPUTE_32F
    if compute_type not in COMPUTE_TYPES:
        raise ValueError(f"compute_type must be a ComputeType or None, got {compute_type!r}")
    if algo not in ALGORITHMS:
        raise ValueError(f"algo must be a GemmAlgo, got {algo!r}")
    types.scalar = SCALAR_TYPES.get(compute_type, FLOAT)
    types.compute = compute_type
    types.algo = algo
    multiply(GEMM_EX, "cublasGemmEx", handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta,
             c, ldc, &types, NULL)


cdef int add_matrices(int slot, str function, int dtype, BlasHandle handle, transa, transb, m, n,
                      alpha, a, lda, beta, b, ldb, c, ldc) except -1:
    cdef Frame frame
    cdef Value alpha_room, beta_room
    cdef int op_a = operation(transa, "transa"), op_b = operation(transb, "transb")
    cdef int rows = size(m, "m"), columns = size(n, "n")
    cdef int a_rows = columns if op_a else rows, b_rows = columns if op_b else rows
    cdef int ld_a = leading(lda, "lda", a_rows)
    cdef int ld_b = leading(ldb, "ldb", b_rows)
    cdef int ld_c = leading(ldc, "ldc", rows)
    cdef int mode, status
    cdef void* a_data
    cdef void* b_data
    cdef void* c_data
    cdef void* alpha_data
    cdef void* beta_data
    cdef cublasSgeam_fn call
    start(&frame, handle)
    try:
        if rows == 0 or columns == 0:
            return 0
        mode = handle.pointer_mode_code
        a_data = memory(&frame, a, "a", False, matrix(a_rows, rows + columns - a_rows, ld_a), dtype)
        b_data = memory(&frame, b, "b", False, matrix(b_rows, rows + columns - b_rows, ld_b), dtype)
        c_data = memory(&frame, c, "c", True, matrix(rows, columns, ld_c), dtype)
        keep_apart(&frame, None)
        alpha_data = scalar(&frame, mode, alpha, "alpha", dtype, &alpha_room)
        beta_data = scalar(&frame, mode, beta, "beta", dtype, &beta_room)
        call = <cublasSgeam_fn> handle.library.get(slot, function)
        with nogil:
            status = enter_as(handle, mode)
            if status == 0:
                status = call(handle.pointer, op_a, op_b, rows, columns, <float*> alpha_data,
                              <float*> a_data, ld_a, <float*> beta_data, <float*> b_data, ld_b,
                              <float*> c_data, ld_c)
            leave(handle)
        if status != 0:
            refuse(handle.library, function, status,
                   (("transa", op_a), ("transb", op_b), ("m", rows), ("n", columns), ("a", a),
                    ("lda", ld_a), ("b", b), ("ldb", ld_b), ("c", c), ("ldc", ld_c)))
    finally:
        end(&frame)
    return 0


def sgeam(BlasHandle handle not None, transa, transb, m, n, alpha, a, lda, beta, b, ldb, c,
          ldc) -> None:
    """C = alpha op(A) + beta op(B) in float32 (cublasSgeam); op(A), op(B) and C are m x n.

    C may be A or B itself where that one is not transposed and has C's leading dimension.
    """
    add_matrices(SGEAM, "cublasSgeam", FLOAT, handle, transa, transb, m, n, alpha, a, lda, beta, b,
                 ldb, c, ldc)


def dgeam(BlasHandle handle not None, transa, transb, m, n, alpha, a, lda, beta, b, ldb, c,
          ldc) -> None:
    """``sgeam`` in float64 (cublasDgeam)."""
    add_matrices(DGEAM, "cublasDgeam", DOUBLE, handle, transa, transb, m, n, alpha, a, lda, beta,
                 b, ldb, c, ldc)


# ---- matrix and vector ---------------------------------------------------------------------------

cdef int multiply_vector(int slot, str function, int dtype, BlasHandle handle, trans, m, n,
                         alpha, a, lda, x, incx, beta, y, incy) except -1:
    cdef Frame frame
    cdef Value alpha_room, beta_room
    cdef int op = operation(trans, "trans")
    cdef int rows = size(m, "m"), columns = size(n, "n"), ld = leading(lda, "lda", rows)
    cdef int inc_x = increment(incx, "incx"), inc_y = increment(incy, "incy")
    cdef int mode, status
    cdef void* a_data
    cdef void* x_data
    cdef void* y_data
    cdef void* alpha_data
    cdef void* beta_data
    cdef cublasSgemv_v2_fn call
    start(&frame, handle)
    try:
        if rows == 0 or columns == 0:
            return 0
        mode = handle.pointer_mode_code
        a_data = memory(&frame, a, "a", False, matrix(rows, columns, ld), dtype)
        x_data = memory(&frame, x, "x", False, vector(rows if op else columns, inc_x), dtype)
        y_data = memory(&frame, y, "y", True, vector(columns if op else rows, inc_y), dtype)
        keep_apart(&frame, None)
        alpha_data = scalar(&frame, mode, alpha, "alpha", dtype, &alpha_room)
        beta_data = scalar(&frame, mode, beta, "beta", dtype, &beta_room)
        call = <cublasSgemv_v2_fn> handle.library.get(slot, function)
        with nogil:
            status = enter_as(handle, mode)
            if status == 0:
                status = call(handle.pointer, op, rows, columns, <float*> alpha_data,
                              <float*> a_data, ld, <float*> x_data, inc_x, <float*> beta_data,
                              <float*> y_data, inc_y)
            leave(handle)
        if status != 0:
            refuse(handle.library, function, status,
                   (("trans", op), ("m", rows), ("n", columns), ("a", a), ("lda", ld), ("x", x),
                    ("incx", inc_x), ("y", y), ("incy", inc_y)))
    finally:
        end(&frame)
    return 0


def sgemv(BlasHandle handle not None, trans, m, n, alpha, a, lda, x, incx, beta, y,
          incy) -> None:
    """y = alpha op(A) x + beta y in float32 (cublasSgemv); A is m x n as stored.

    As in BLAS, y stays as it is where m or n is 0. A negative increment runs backwards from the
    vector's end.
    """
    multiply_vector(SGEMV, "cublasSgemv_v2", FLOAT, handle, trans, m, n, alpha, a, lda, x, incx,
                    beta, y, incy)


def dgemv(BlasHandle handle not None, trans, m, n, alpha, a, lda, x, incx, beta, y,
          incy) -> None:
    """``sgemv`` in float64 (cublasDgemv)."""
    multiply_vector(DGEMV, "cublasDgemv_v2", DOUBLE, handle, trans, m, n, alpha, a, lda, x, incx,
                    beta, y, incy)


cdef int add_outer(int slot, str function, int dtype, BlasHandle handle, m, n, alpha, x, incx, y,
                   incy, a, lda) except -1:
    cdef Frame frame
    cdef Value room
    cdef int rows = size(m, "m"), columns = size(n, "n"), ld = leading(lda, "lda", rows)
    cdef int inc_x = increment(incx, "incx"), inc_y = increment(incy, "incy")
    cdef int mode, status
    cdef void* x_data
    cdef void* y_data
    cdef void* a_data
    cdef void* alpha_data
    cdef cublasSger_v2_fn call
    start(&frame, handle)
    try:
        if rows == 0 or columns == 0:
            return 0
        mode = handle.pointer_mode_code
        x_data = memory(&frame, x, "x", False, vector(rows, inc_x), dtype)
        y_data = memory(&frame, y, "y", False, vector(columns, inc_y), dtype)
        a_data = memory(&frame, a, "a", True, matrix(rows, columns, ld), dtype)
        keep_apart(&frame, None)
        alpha_data = scalar(&frame, mode, alpha, "alpha", dtype, &room)
        call = <cublasSger_v2_fn> handle.library.get(slot, function)
        with nogil:
            status = enter_as(handle, mode)
            if status == 0:
                status = call(handle.pointer, rows, columns, <float*> alpha_data, <float*> x_data,
                              inc_x, <float*> y_data, inc_y, <float*> a_data, ld)
            leave(handle)
        if status != 0:
            refuse(handle.library, function, status,
                   (("m", rows), ("n", columns), ("x", x), ("incx", inc_x), ("y", y),
                    ("incy", inc_y), ("a", a), ("lda", ld)))
    finally:
        end(&frame)
    return 0


def sger(BlasHandle handle not None, m, n, alpha, x, incx, y, incy, a, lda) -> None:
    """A = alpha x y^T + A in float32 (cublasSger); x has m elements, y n, A is m x n."""
    add_outer(SGER, "cublasSger_v2", FLOAT, handle, m, n, alpha, x, incx, y, incy, a, lda)


def dger(BlasHandle handle not None, m, n, alpha, x, incx, y, incy, a, lda) -> None:
    """``sger`` in float64 (cublasDger)."""
    add_outer(DGER, "cublasDger_v2", DOUBLE, handle, m, n, alpha, x, incx, y, incy, a, lda)


# ---- vectors -------------------------------------------------------------------------------------

cdef int add_vector(int slot, str function, int dtype, BlasHandle handle, n, alpha, x, incx, y,
                    incy) except -1:
    cdef Frame frame
    cdef Value room
    cdef int count = size(n, "n")
    cdef int inc_x = increment(incx, "incx"), inc_y = increment(incy, "incy")
    cdef int mode, status
    cdef void* x_data
    cdef void* y_data
    cdef void* alpha_data
    cdef cublasSaxpy_v2_fn call
    start(&frame, handle)
    try:
        if count == 0:
            return 0
        mode = handle.pointer_mode_code
        x_data = memory(&frame, x, "x", False, vector(count, inc_x), dtype)
        y_data = memory(&frame, y, "y", True, vector(count, inc_y), dtype)
        keep_apart(&frame, None)
        alpha_data = scalar(&frame, mode, alpha, "alpha", dtype, &room)
        call = <cublasSaxpy_v2_fn> handle.library.get(slot, function)
        with nogil:
            status = enter_as(handle, mode)
            if status == 0:
                status = call(handle.pointer, count, <float*> alpha_data, <float*> x_data, inc_x,
                              <float*> y_data, inc_y)
            leave(handle)
        if status != 0:
            refuse(handle.library, function, status,
                   (("n", count), ("x", x), ("incx", inc_x), ("y", y), ("incy", inc_y)))
    finally:
        end(&frame)
    return 0


def saxpy(BlasHandle handle not None, n, alpha, x, incx, y, incy) -> None:
    """y = alpha x + y in float32, n elements (cublasSaxpy)."""
    add_vector(SAXPY, "cublasSaxpy_v2", FLOAT, handle, n, alpha, x, incx, y, incy)


def daxpy(BlasHandle handle not None, n, alpha, x, incx, y, incy) -> None:
    """``saxpy`` in float64 (cublasDaxpy)."""
    add_vector(DAXPY, "cublasDaxpy_v2", DOUBLE, handle, n, alpha, x, incx, y, incy)


cdef int scale_vector(int slot, str function, int dtype, BlasHandle handle, n, alpha, x,
                      incx) except -1:
    cdef Frame frame
    cdef Value room
    cdef int count = size(n, "n"), inc_x = forward_increment(incx, "incx")
    cdef int mode, status
    cdef void* x_data
    cdef void* alpha_data
    cdef cublasSscal_v2_fn call
    start(&frame, handle)
    try:
        if count == 0:
            return 0
        mode = handle.pointer_mode_code
        x_data = memory(&frame, x, "x", True, vector(count, inc_x), dtype)
        alpha_data = scalar(&frame, mode, alpha, "alpha", dtype, &room)
        call = <cublasSscal_v2_fn> handle.library.get(slot, function)
        with nogil:
            status = enter_as(handle, mode)
            if status == 0:
                status = call(handle.pointer, count, <float*> alpha_data, <float*> x_data, inc_x)
            leave(handle)
        if status != 0:
            refuse(handle.library, function, status, (("n", count), ("x", x), ("incx", inc_x)))
    finally:
        end(&frame)
    return 0


def sscal(BlasHandle handle not None, n, alpha, x, incx) -> None:
    """x = alpha x in float32, n elements (cublasSscal)."""
    scale_vector(SSCAL, "cublasSscal_v2", FLOAT, handle, n, alpha, x, incx)


def dscal(BlasHandle handle not None, n, alpha, x, incx) -> None:
    """``sscal`` in float64 (cublasDscal)."""
    scale_vector(DSCAL, "cublasDscal_v2", DOUBLE, handle, n, alpha, x, incx)


cdef int move_vector(int slot, str function, int dtype, BlasHandle handle, n, x, incx,
                     bint writes_x, y, incy) except -1:
    """Copy and swap, whose C signatures are alike."""
    cdef Frame frame
    cdef int count = size(n, "n")
    cdef int inc_x = increment(incx, "incx"), inc_y = increment(incy, "incy")
    cdef int status
    cdef void* x_data
    cdef void* y_data
    cdef cublasSswap_v2_fn call
    start(&frame, handle)
    try:
        if count == 0:
            return 0
        x_data = memory(&frame, x, "x", writes_x, vector(count, inc_x), dtype)
        y_data = memory(&frame, y, "y", True, vector(count, inc_y), dtype)
        keep_apart(&frame, None)
        call = <cublasSswap_v2_fn> handle.library.get(slot, function)
        with nogil:
            enter(handle)
            status = call(handle.pointer, count, <float*> x_data, inc_x, <float*> y_data, inc_y)
            leave(handle)
        if status != 0:
            refuse(handle.library, function, status,
                   (("n", count), ("x", x), ("incx", inc_x), ("y", y), ("incy", inc_y)))
    finally:
        end(&frame)
    return 0


def scopy(BlasHandle handle not None, n, x, incx, y, incy) -> None:
    """y = x in float32, n elements (cublasScopy)."""
    move_vector(SCOPY, "cublasScopy_v2", FLOAT, handle, n, x, incx, False, y, incy)


def dcopy(BlasHandle handle not None, n, x, incx, y, incy) -> None:
    """``scopy`` in float64 (cublasDcopy)."""
    move_vector(DCOPY, "cublasDcopy_v2", DOUBLE, handle, n, x, incx, False, y, incy)


def sswap(BlasHandle handle not None, n, x, incx, y, incy) -> None:
    """Exchange x and y in float32, n elements (cublasSswap)."""
    move_vector(SSWAP, "cublasSswap_v2", FLOAT, handle, n, x, incx, True, y, incy)


def dswap(BlasHandle handle not None, n, x, incx, y, incy) -> None:
    """``sswap`` in float64 (cublasDswap)."""
    move_vector(DSWAP, "cublasDswap_v2", DOUBLE, handle, n, x, incx, True, y, incy)


# ---- reductions ----------------------------------------------------------------------------------

cdef object reduce(int slot, str function, int dtype, int result_dtype, BlasHandle handle, n, x,
                   incx, bint pair, y, incy, out):
    """One number from a vector, or (``pair``: dot) from two."""
    cdef Frame frame
    cdef Value room
    cdef int count = size(n, "n"), inc_y = increment(incy, "incy")
    cdef int inc_x = increment(incx, "incx") if pair else forward_increment(incx, "incx")
    cdef int mode, status
    cdef void* address
    cdef void* x_data
    cdef void* y_data = NULL
    cdef void* result_data
    start(&frame, handle)
    try:
        mode = handle.pointer_mode_code
        x_data = memory(&frame, x, "x", False, vector(count, inc_x), dtype)
        if pair:
            y_data = memory(&frame, y, "y", False, vector(count, inc_y), dtype)
        result_data = result(&frame, mode, out, result_dtype, &room)
        address = handle.library.get(slot, function)
        with nogil:
            status = enter_as(handle, mode)
            if status != 0:
                pass
            elif pair:
                status = (<cublasSdot_v2_fn> address)(
                    handle.pointer, count, <float*> x_data, inc_x, <float*> y_data, inc_y,
                    <float*> result_data)
            else:
                status = (<cublasSnrm2_v2_fn> address)(
                    handle.pointer, count, <float*> x_data, inc_x, <float*> result_data)
            leave(handle)
        if status != 0:
            refuse(handle.library, function, status,
                   (("n", count), ("x", x), ("incx", inc_x)) + (
                       (("y", y), ("incy", inc_y)) if pair else ()))
    finally:
        end(&frame)
    if mode == DEVICE:
        return None
    if result_dtype == FLOAT:
        return room.single
    return room.wide if result_dtype == DOUBLE else room.whole


def sdot(BlasHandle handle not None, n, x, incx, y, incy, *, out=None):
    """Sum of x[i] y[i] in float32 (cublasSdot): a float, or in device mode None and ``out``."""
    return reduce(SDOT, "cublasSdot_v2", FLOAT, FLOAT, handle, n, x, incx, True, y, incy, out)


def ddot(BlasHandle handle not None, n, x, incx, y, incy, *, out=None):
    """``sdot`` in float64 (cublasDdot)."""
    return reduce(DDOT, "cublasDdot_v2", DOUBLE, DOUBLE, handle, n, x, incx, True, y, incy, out)


def snrm2(BlasHandle handle not None, n, x, incx, *, out=None):
    """Euclidean norm in float32 (cublasSnrm2): a float, or in device mode None and ``out``."""
    return reduce(SNRM2, "cublasSnrm2_v2", FLOAT, FLOAT, handle, n, x, incx, False, None, 1, out)


def dnrm2(BlasHandle handle not None, n, x, incx, *, out=None):
    """``snrm2`` in float64 (cublasDnrm2)."""
    return reduce(DNRM2, "cublasDnrm2_v2", DOUBLE, DOUBLE, handle, n, x, incx, False, None, 1, out)


def sasum(BlasHandle handle not None, n, x, incx, *, out=None):
    """Sum of |x[i]| in float32 (cublasSasum): a float, or in device mode None and ``out``."""
    return reduce(SASUM, "cublasSasum_v2", FLOAT, FLOAT, handle, n, x, incx, False, None, 1, out)


def dasum(BlasHandle handle not None, n, x, incx, *, out=None):
    """``sasum`` in float64 (cublasDasum)."""
    return reduce(DASUM, "cublasDasum_v2", DOUBLE, DOUBLE, handle, n, x, incx, False, None, 1, out)


def isamax(BlasHandle handle not None, n, x, incx, *, out=None):
    """Position of the first largest |x[i]|, counted from 1 as in BLAS; 0 if n is 0 (cublasIsamax).

    In device mode None, and ``out`` holds an int32.
    """
    return reduce(ISAMAX, "cublasIsamax_v2", FLOAT, INT32, handle, n, x, incx, False, None, 1, out)


def idamax(BlasHandle handle not None, n, x, incx, *, out=None):
    """``isamax`` in float64 (cublasIdamax)."""
    return reduce(IDAMAX, "cublasIdamax_v2", DOUBLE, INT32, handle, n, x, incx, False, None, 1,
                  out)


def isamin(BlasHandle handle not None, n, x, incx, *, out=None):
    """Position of the first smallest |x[i]|, else as ``isamax`` (cublasIsamin)."""
    return reduce(ISAMIN, "cublasIsamin_v2", FLOAT, INT32, handle, n, x, incx, False, None, 1, out)


def idamin(BlasHandle handle not None, n, x, incx, *, out=None):
    """``isamin`` in float64 (cublasIdamin)."""
    return reduce(IDAMIN, "cublasIdamin_v2", DOUBLE, INT32, handle, n, x, incx, False, None, 1,
                  out)
