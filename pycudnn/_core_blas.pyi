"""Types of the Cython extension; the docstrings are in _core_blas.pyx."""

import threading
from typing import Any, TypeAlias, overload

from pycudnn._core import Buffer, CublasHandle

# A number in the pointer mode HOST, device memory of one element in the mode DEVICE.
Scalar: TypeAlias = Any

class BlasHandle(CublasHandle):
    workspace: Buffer | None
    mode_lock: threading.RLock
    def _lend(self, workspace: Buffer | None) -> None: ...
    def _point(self, mode: int) -> None: ...

def sgemm(
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: Scalar,
    a: Any,
    lda: int,
    b: Any,
    ldb: int,
    beta: Scalar,
    c: Any,
    ldc: int,
) -> None: ...
def dgemm(
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: Scalar,
    a: Any,
    lda: int,
    b: Any,
    ldb: int,
    beta: Scalar,
    c: Any,
    ldc: int,
) -> None: ...
def gemm_ex(
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: Scalar,
    a: Any,
    a_type: Any,
    lda: int,
    b: Any,
    b_type: Any,
    ldb: int,
    beta: Scalar,
    c: Any,
    c_type: Any,
    ldc: int,
    compute_type: int | None = None,
    algo: int = -1,
) -> None: ...
def sgemm_strided_batched(
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: Scalar,
    a: Any,
    lda: int,
    stride_a: int,
    b: Any,
    ldb: int,
    stride_b: int,
    beta: Scalar,
    c: Any,
    ldc: int,
    stride_c: int,
    batch_count: int,
) -> None: ...
def dgemm_strided_batched(
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: Scalar,
    a: Any,
    lda: int,
    stride_a: int,
    b: Any,
    ldb: int,
    stride_b: int,
    beta: Scalar,
    c: Any,
    ldc: int,
    stride_c: int,
    batch_count: int,
) -> None: ...
def sgeam(
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    alpha: Scalar,
    a: Any,
    lda: int,
    beta: Scalar,
    b: Any,
    ldb: int,
    c: Any,
    ldc: int,
) -> None: ...
def dgeam(
    handle: BlasHandle,
    transa: int,
    transb: int,
    m: int,
    n: int,
    alpha: Scalar,
    a: Any,
    lda: int,
    beta: Scalar,
    b: Any,
    ldb: int,
    c: Any,
    ldc: int,
) -> None: ...
def sgemv(
    handle: BlasHandle,
    trans: int,
    m: int,
    n: int,
    alpha: Scalar,
    a: Any,
    lda: int,
    x: Any,
    incx: int,
    beta: Scalar,
    y: Any,
    incy: int,
) -> None: ...
def dgemv(
    handle: BlasHandle,
    trans: int,
    m: int,
    n: int,
    alpha: Scalar,
    a: Any,
    lda: int,
    x: Any,
    incx: int,
    beta: Scalar,
    y: Any,
    incy: int,
) -> None: ...
def sger(
    handle: BlasHandle,
    m: int,
    n: int,
    alpha: Scalar,
    x: Any,
    incx: int,
    y: Any,
    incy: int,
    a: Any,
    lda: int,
) -> None: ...
def dger(
    handle: BlasHandle,
    m: int,
    n: int,
    alpha: Scalar,
    x: Any,
    incx: int,
    y: Any,
    incy: int,
    a: Any,
    lda: int,
) -> None: ...
def saxpy(
    handle: BlasHandle, n: int, alpha: Scalar, x: Any, incx: int, y: Any, incy: int
) -> None: ...
def daxpy(
    handle: BlasHandle, n: int, alpha: Scalar, x: Any, incx: int, y: Any, incy: int
) -> None: ...
def sscal(handle: BlasHandle, n: int, alpha: Scalar, x: Any, incx: int) -> None: ...
def dscal(handle: BlasHandle, n: int, alpha: Scalar, x: Any, incx: int) -> None: ...
def scopy(handle: BlasHandle, n: int, x: Any, incx: int, y: Any, incy: int) -> None: ...
def dcopy(handle: BlasHandle, n: int, x: Any, incx: int, y: Any, incy: int) -> None: ...
def sswap(handle: BlasHandle, n: int, x: Any, incx: int, y: Any, incy: int) -> None: ...
def dswap(handle: BlasHandle, n: int, x: Any, incx: int, y: Any, incy: int) -> None: ...
@overload
def sdot(
    handle: BlasHandle, n: int, x: Any, incx: int, y: Any, incy: int, *, out: None = None
) -> float: ...
@overload
def sdot(handle: BlasHandle, n: int, x: Any, incx: int, y: Any, incy: int, *, out: Any) -> None: ...
@overload
def ddot(
    handle: BlasHandle, n: int, x: Any, incx: int, y: Any, incy: int, *, out: None = None
) -> float: ...
@overload
def ddot(handle: BlasHandle, n: int, x: Any, incx: int, y: Any, incy: int, *, out: Any) -> None: ...
@overload
def snrm2(handle: BlasHandle, n: int, x: Any, incx: int, *, out: None = None) -> float: ...
@overload
def snrm2(handle: BlasHandle, n: int, x: Any, incx: int, *, out: Any) -> None: ...
@overload
def dnrm2(handle: BlasHandle, n: int, x: Any, incx: int, *, out: None = None) -> float: ...
@overload
def dnrm2(handle: BlasHandle, n: int, x: Any, incx: int, *, out: Any) -> None: ...
@overload
def sasum(handle: BlasHandle, n: int, x: Any, incx: int, *, out: None = None) -> float: ...
@overload
def sasum(handle: BlasHandle, n: int, x: Any, incx: int, *, out: Any) -> None: ...
@overload
def dasum(handle: BlasHandle, n: int, x: Any, incx: int, *, out: None = None) -> float: ...
@overload
def dasum(handle: BlasHandle, n: int, x: Any, incx: int, *, out: Any) -> None: ...
@overload
def isamax(handle: BlasHandle, n: int, x: Any, incx: int, *, out: None = None) -> int: ...
@overload
def isamax(handle: BlasHandle, n: int, x: Any, incx: int, *, out: Any) -> None: ...
@overload
def idamax(handle: BlasHandle, n: int, x: Any, incx: int, *, out: None = None) -> int: ...
@overload
def idamax(handle: BlasHandle, n: int, x: Any, incx: int, *, out: Any) -> None: ...
@overload
def isamin(handle: BlasHandle, n: int, x: Any, incx: int, *, out: None = None) -> int: ...
@overload
def isamin(handle: BlasHandle, n: int, x: Any, incx: int, *, out: Any) -> None: ...
@overload
def idamin(handle: BlasHandle, n: int, x: Any, incx: int, *, out: None = None) -> int: ...
@overload
def idamin(handle: BlasHandle, n: int, x: Any, incx: int, *, out: Any) -> None: ...
