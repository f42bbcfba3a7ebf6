"""Types of the Cython extension; the docstrings are in _core.pyx."""

from types import TracebackType
from typing import Any, ClassVar

from typing_extensions import Self

from pycudnn.device import Stream

FORKED: str

def enter_call() -> None: ...
def leave_call() -> None: ...
def capture_began() -> None: ...
def capture_ended() -> None: ...
def use_driver(get_current: int, push_current: int, pop_current: int) -> None: ...

class Library:
    name: str
    backend: str
    def __new__(cls, name: str, backend: str) -> Self: ...
    def address(self, function: str) -> int: ...
    def function(self, function: str) -> Any: ...
    def fail(
        self, function: str, status: int, arguments: tuple[tuple[str, object], ...] = ()
    ) -> None: ...

class Pinnable:
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class Owned(Pinnable):
    c_type: ClassVar[str]
    library: Any
    @property
    def address(self) -> int: ...
    def _set_once(self, settings: dict[str, Any]) -> None: ...
    def _own(self, library: Library, pointer: int | None, destroyer: str) -> None: ...

class Handle(Owned):
    device: Any
    device_index: int
    @property
    def stream(self) -> Any: ...
    def _place(self, device: Any, device_index: int) -> None: ...
    def _follow(self, stream: Any) -> None: ...

class CudnnHandle(Handle): ...

class CublasHandle(Handle):
    pointer_mode_code: int

class TensorLike(Owned):
    extent: int
    overlaps_itself: bool
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype_code(self) -> int: ...
    def _lay_out(
        self,
        dtype: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        item_bytes: int,
        library_bytes: int,
    ) -> None: ...

class TensorDescriptor(TensorLike): ...
class FilterDescriptor(TensorLike): ...

class ConvolutionDescriptor(Owned):
    ndim: int
    def _remember(
        self, padding: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
    ) -> None: ...

class PoolingDescriptor(Owned):
    ndim: int
    def _remember(
        self, window: tuple[int, ...], padding: tuple[int, ...], stride: tuple[int, ...]
    ) -> None: ...

class ActivationDescriptor(Owned):
    def _set_mode(self, mode: int) -> None: ...

class DropoutDescriptor(Owned):
    states: Any
    def _keep_states(self, states: Any) -> None: ...

class Buffer(Pinnable):
    address: int
    nbytes: int
    backend: str
    device_index: int
    dtype_code: int
    writable: bool
    owner: Any
    last_stream: Any
    def _set(
        self,
        address: int,
        nbytes: int,
        backend: str,
        device_index: int,
        dtype_code: int,
        *,
        writable: bool = True,
        owner: Any = None,
    ) -> None: ...
    def _release(self) -> None: ...
    def _used_on(self, stream: Any) -> None: ...

def message_sink() -> int: ...
def overlap(first: TensorLike, begin: int, second: TensorLike, other_begin: int) -> bool: ...

class ColdCall:
    def __init__(
        self, library: Library, handle: Handle | None = None, stream: Stream | None = None
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def operand(
        self,
        value: Any,
        name: str,
        writes: bool,
        descriptor: TensorLike | None = None,
        needed: int = 0,
        alignment: int = 0,
    ) -> int: ...
    def keep_apart(self) -> None: ...
    def __call__(self, function: str, *arguments: Any) -> None: ...

def get_convolution_forward_output_dim(
    conv: ConvolutionDescriptor,
    x_desc: TensorDescriptor,
    w_desc: FilterDescriptor,
) -> tuple[int, ...]: ...
def get_pooling_forward_output_dim(
    pooling: PoolingDescriptor,
    x_desc: TensorDescriptor,
) -> tuple[int, ...]: ...
def convolution_forward(
    handle: CudnnHandle,
    x_desc: TensorDescriptor,
    x: Any,
    w_desc: FilterDescriptor,
    w: Any,
    conv: ConvolutionDescriptor,
    algo: int,
    workspace: Any,
    y_desc: TensorDescriptor,
    y: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None: ...
def convolution_backward_data(
    handle: CudnnHandle,
    w_desc: FilterDescriptor,
    w: Any,
    dy_desc: TensorDescriptor,
    dy: Any,
    conv: ConvolutionDescriptor,
    algo: int,
    workspace: Any,
    dx_desc: TensorDescriptor,
    dx: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None: ...
def convolution_backward_filter(
    handle: CudnnHandle,
    x_desc: TensorDescriptor,
    x: Any,
    dy_desc: TensorDescriptor,
    dy: Any,
    conv: ConvolutionDescriptor,
    algo: int,
    workspace: Any,
    dw_desc: FilterDescriptor,
    dw: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None: ...
def convolution_bias_activation_forward(
    handle: CudnnHandle,
    x_desc: TensorDescriptor,
    x: Any,
    w_desc: FilterDescriptor,
    w: Any,
    conv: ConvolutionDescriptor,
    algo: int,
    workspace: Any,
    z_desc: TensorDescriptor,
    z: Any,
    bias_desc: TensorDescriptor,
    bias: Any,
    activation: ActivationDescriptor,
    y_desc: TensorDescriptor,
    y: Any,
    *,
    alpha1: float = 1.0,
    alpha2: float = 0.0,
) -> None: ...
def convolution_backward_bias(
    handle: CudnnHandle,
    dy_desc: TensorDescriptor,
    dy: Any,
    db_desc: TensorDescriptor,
    db: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None: ...
def add_tensor(
    handle: CudnnHandle,
    a_desc: TensorDescriptor,
    a: Any,
    c_desc: TensorDescriptor,
    c: Any,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> None: ...
def transform_tensor(
    handle: CudnnHandle,
    x_desc: TensorDescriptor,
    x: Any,
    y_desc: TensorDescriptor,
    y: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None: ...
def set_tensor(
    handle: CudnnHandle,
    y_desc: TensorDescriptor,
    y: Any,
    value: float,
) -> None: ...
def scale_tensor(
    handle: CudnnHandle,
    y_desc: TensorDescriptor,
    y: Any,
    alpha: float,
) -> None: ...
def activation_forward(
    handle: CudnnHandle,
    activation: ActivationDescriptor,
    x_desc: TensorDescriptor,
    x: Any,
    y_desc: TensorDescriptor,
    y: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None: ...
def activation_backward(
    handle: CudnnHandle,
    activation: ActivationDescriptor,
    y_desc: TensorDescriptor,
    y: Any,
    dy_desc: TensorDescriptor,
    dy: Any,
    x_desc: TensorDescriptor,
    x: Any,
    dx_desc: TensorDescriptor,
    dx: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None: ...
def pooling_forward(
    handle: CudnnHandle,
    pooling: PoolingDescriptor,
    x_desc: TensorDescriptor,
    x: Any,
    y_desc: TensorDescriptor,
    y: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None: ...
def pooling_backward(
    handle: CudnnHandle,
    pooling: PoolingDescriptor,
    y_desc: TensorDescriptor,
    y: Any,
    dy_desc: TensorDescriptor,
    dy: Any,
    x_desc: TensorDescriptor,
    x: Any,
    dx_desc: TensorDescriptor,
    dx: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None: ...
def softmax_forward(
    handle: CudnnHandle,
    algorithm: int,
    mode: int,
    x_desc: TensorDescriptor,
    x: Any,
    y_desc: TensorDescriptor,
    y: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None: ...
def softmax_backward(
    handle: CudnnHandle,
    algorithm: int,
    mode: int,
    y_desc: TensorDescriptor,
    y: Any,
    dy_desc: TensorDescriptor,
    dy: Any,
    dx_desc: TensorDescriptor,
    dx: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None: ...
def dropout_forward(
    handle: CudnnHandle,
    dropout: DropoutDescriptor,
    x_desc: TensorDescriptor,
    x: Any,
    y_desc: TensorDescriptor,
    y: Any,
    reserve_space: Any,
) -> None: ...
def dropout_backward(
    handle: CudnnHandle,
    dropout: DropoutDescriptor,
    dy_desc: TensorDescriptor,
    dy: Any,
    dx_desc: TensorDescriptor,
    dx: Any,
    reserve_space: Any,
) -> None: ...
