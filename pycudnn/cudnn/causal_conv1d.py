"""Causal depthwise convolutions of sequences, and their gradients.

Causal: an output sees its own time step and those before it. Depthwise: each channel has weights of
its own. The functions take a stream instead of a handle, and contiguous memory instead of
descriptors; arrays of more than one dimension must have the shape that is named. ``data_type`` is
float32, float64, float16 or bfloat16. They need cuDNN 9.22, some a newer one, and FunctionNotFound
says which.

What all raise: TypeError for another data type, or an operand of another one than ``data_type``;
ValueError for sizes under 1, weights of a number that cuDNN has no code for, memory that is too
small, lies otherwise or is written and another operand's as well; LibraryMismatch for memory of
another device than the stream's.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import CausalConv1dActivation, DataType
from pycudnn.cudnn._objects import integer, member
from pycudnn.cudnn._streams import StreamCall, stream_call
from pycudnn.device import Stream
from pycudnn.libraries import Library, find_library

_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.HALF, DataType.BFLOAT16)
_KERNEL_SIZES = (*range(2, 9), 16, 32, 64, 128, 256)
_ALIGNMENT = 16  # bytes, of what the FFT functions take
IDENTITY = CausalConv1dActivation.IDENTITY


class CausalConv1dBuffers(NamedTuple):
    """Bytes of the two buffers of a long convolution."""

    workspace: int
    reserve_space: int


# ---- direct --------------------------------------------------------------------------------------


def causal_conv1d_forward(
    stream: Stream,
    x: Any,
    weight: Any,
    bias: Any,
    y: Any,
    batch: int,
    dim: int,
    seq_len: int,
    kernel_size: int,
    data_type: Any,
    activation: CausalConv1dActivation = IDENTITY,
    *,
    library: Library | str | None = None,
) -> None:
    """``y[t] = act(bias + sum of x[t - j] weight[K - 1 - j])`` (cudnnCausalConv1dForward).

    The sum is over j from 0 to K - 1, with ``x`` 0 before its begin: the last weight meets the
    present. ``x`` and ``y`` are (batch, dim, seq_len), ``weight`` is (dim, kernel_size), ``bias``
    (dim,). ``kernel_size`` is 2 to 8, 16, 32, 64, 128 or 256; the activation is none, or SiLU,
    ``z / (1 + exp(-z))``.
    """
    sizes = (batch, dim, seq_len, kernel_size)
    _forward("cudnnCausalConv1dForward", stream, (x, weight, bias, y), sizes, data_type,
             activation, library)  # fmt: skip


def causal_conv1d_backward(
    stream: Stream,
    x: Any,
    weight: Any,
    bias: Any,
    dy: Any,
    dx: Any,
    dweight: Any,
    dbias: Any,
    batch: int,
    dim: int,
    seq_len: int,
    kernel_size: int,
    data_type: Any,
    activation: CausalConv1dActivation = IDENTITY,
    *,
    library: Library | str | None = None,
) -> None:
    """Gradients of ``causal_conv1d_forward`` (cudnnCausalConv1dBackward).

    ``dx`` is set. ``dweight`` and ``dbias`` are added to, so begin with zeros; they are float64 for
    float64 data, else float32. Shapes as in the forward function.
    """
    sizes = (batch, dim, seq_len, kernel_size)
    operands = (x, weight, bias, dy, dx, dweight, dbias)
    _backward("cudnnCausalConv1dBackward", stream, operands, sizes, data_type, activation, library)


def causal_conv1d_nwh_forward(
    stream: Stream,
    x: Any,
    weight: Any,
    bias: Any,
    y: Any,
    batch: int,
    dim: int,
    seq_len: int,
    kernel_size: int,
    data_type: Any,
    activation: CausalConv1dActivation = IDENTITY,
    *,
    library: Library | str | None = None,
) -> None:
    """``causal_conv1d_forward`` with the channels innermost (cudnnCausalConv1dNwhForward).

    ``x`` and ``y`` are (batch, seq_len, dim), ``weight`` is (kernel_size, dim), with up to 128
    weights per channel.
    """
    sizes = (batch, dim, seq_len, kernel_size)
    _forward("cudnnCausalConv1dNwhForward", stream, (x, weight, bias, y), sizes, data_type,
             activation, library)  # fmt: skip


def causal_conv1d_nwh_backward(
    stream: Stream,
    x: Any,
    weight: Any,
    bias: Any,
    dy: Any,
    dx: Any,
    dweight: Any,
    dbias: Any,
    batch: int,
    dim: int,
    seq_len: int,
    kernel_size: int,
    data_type: Any,
    activation: CausalConv1dActivation = IDENTITY,
    *,
    library: Library | str | None = None,
) -> None:
    """Gradients of ``causal_conv1d_nwh_forward`` (cudnnCausalConv1dNwhBackward).

    ``dx`` is set, ``dweight`` and ``dbias`` are added to, as in ``causal_conv1d_backward``.
    """
    sizes = (batch, dim, seq_len, kernel_size)
    operands = (x, weight, bias, dy, dx, dweight, dbias)
    _backward("cudnnCausalConv1dNwhBackward", stream, operands, sizes, data_type, activation,
              library)  # fmt: skip


# ---- two with gates ------------------------------------------------------------------------------


def b2b_causal_conv1d_forward(
    stream: Stream,
    x: Any,
    weights_proj: Any,
    weights_mixer: Any,
    skip_bias: Any,
    y: Any,
    y_gated: Any,
    batch: int,
    dim: int,
    seq_len: int,
    kernel_size_proj: int,
    kernel_size_mixer: int,
    data_type: Any,
    *,
    library: Library | str | None = None,
) -> None:
    """Two causal convolutions with gates, as in Hyena (cudnnB2BCausalConv1dForward).

    Each channel has three sequences, ``x`` (batch, dim, 3, seq_len). A convolution with
    ``weights_proj`` (dim, 3, kernel_size_proj) makes p0, p1 and p2 of them. Then ``y`` is p1 p2
    convolved with ``weights_mixer`` (dim, kernel_size_mixer), plus ``skip_bias`` (dim,) times
    p1 p2, and ``y_gated`` is p0 y. Both are (batch, dim, seq_len); ``y`` is what the gradients
    need, ``y_gated`` the result. ``kernel_size_proj`` is 2 to 32, ``kernel_size_mixer`` 2 to 256.
    """
    sizes = (batch, dim, seq_len, kernel_size_proj, kernel_size_mixer)
    shapes = _GatedShapes(sizes, data_type)
    with stream_call(stream, library) as call:
        inputs = shapes.inputs(call, x, weights_proj, weights_mixer, skip_bias)
        outputs = [
            call.write(value, name, shapes.out, shapes.data_type)
            for value, name in ((y, "y"), (y_gated, "y_gated"))
        ]
        call("cudnnB2BCausalConv1dForward", *inputs, *outputs, *shapes.sizes, shapes.data_type)


def b2b_causal_conv1d_backward(
    stream: Stream,
    x: Any,
    weights_proj: Any,
    weights_mixer: Any,
    skip_bias: Any,
    y: Any,
    dy: Any,
    dx: Any,
    dweights_proj: Any,
    dweights_mixer: Any,
    dskip_bias: Any,
    batch: int,
    dim: int,
    seq_len: int,
    kernel_size_proj: int,
    kernel_size_mixer: int,
    data_type: Any,
    *,
    library: Library | str | None = None,
) -> None:
    """Gradients of ``b2b_causal_conv1d_forward`` (cudnnB2BCausalConv1dBackward).

    ``dy`` is the gradient of ``y_gated``. ``dx`` is set; the gradients of weights and bias are
    added to, so begin with zeros. These are float64 for float64 data, else float32.
    """
    sizes = (batch, dim, seq_len, kernel_size_proj, kernel_size_mixer)
    shapes = _GatedShapes(sizes, data_type)
    gradient_type = _gradient_type(shapes.data_type)
    with stream_call(stream, library) as call:
        inputs = shapes.inputs(call, x, weights_proj, weights_mixer, skip_bias)
        call(
            "cudnnB2BCausalConv1dBackward",
            *inputs,
            call.read(y, "y", shapes.out, shapes.data_type),
            call.read(dy, "dy", shapes.out, shapes.data_type),
            call.write(dx, "dx", shapes.x, shapes.data_type),
            call.write(dweights_proj, "dweights_proj", shapes.projection, gradient_type),
            call.write(dweights_mixer, "dweights_mixer", shapes.mixer, gradient_type),
            call.write(dskip_bias, "dskip_bias", shapes.skip, gradient_type),
            *shapes.sizes, shapes.data_type, gradient_type,
        )  # fmt: skip


# ---- by FFT --------------------------------------------------------------------------------------


def fft_causal_conv1d_forward(
    stream: Stream,
    x: Any,
    weight: Any,
    y: Any,
    batch: int,
    dim: int,
    seq_len: int,
    kernel_size: int,
    data_type: Any,
    *,
    library: Library | str | None = None,
) -> None:
    """``y[t] = sum of x[t - j] weight[j]`` by FFT (cudnnFFTCausalConv1dForward).

    Here the first weight meets the present, unlike in ``causal_conv1d_forward``. ``kernel_size`` is
    a power of 2 from 128 to 16384 (4096 for float64) that divides ``seq_len``. All memory starts at
    a multiple of 16 bytes.
    """
    shapes = _FourierShapes((batch, dim, seq_len, kernel_size), data_type, 128, 16384, 4096)
    if shapes.steps % shapes.taps:
        raise ValueError(
            f"seq_len must be a multiple of kernel_size {shapes.taps}, got {shapes.steps}"
        )
    with stream_call(stream, library) as call:
        addresses = shapes.addresses(call, {"x": x, "weight": weight}, {"y": y})
        call("cudnnFFTCausalConv1dForward", *addresses, *shapes.sizes, shapes.data_type)


def fft_causal_conv1d_backward(
    stream: Stream,
    x: Any,
    weight: Any,
    dy: Any,
    dx: Any,
    dweight: Any,
    batch: int,
    dim: int,
    seq_len: int,
    kernel_size: int,
    data_type: Any,
    *,
    library: Library | str | None = None,
) -> None:
    """Gradients of ``fft_causal_conv1d_forward``, both set (cudnnFFTCausalConv1dBackward)."""
    shapes = _FourierShapes((batch, dim, seq_len, kernel_size), data_type, 128, 16384, 4096)
    if shapes.steps % shapes.taps:
        raise ValueError(
            f"seq_len must be a multiple of kernel_size {shapes.taps}, got {shapes.steps}"
        )
    with stream_call(stream, library) as call:
        addresses = shapes.addresses(
            call, {"x": x, "weight": weight, "dy": dy}, {"dx": dx, "dweight": dweight}
        )
        call("cudnnFFTCausalConv1dBackward", *addresses, *shapes.sizes, shapes.data_type)


def long_fft_causal_conv1d_get_buffer_sizes(
    batch: int,
    dim: int,
    seq_len: int,
    kernel_size: int,
    data_type: Any,
    *,
    library: Library | str | None = None,
) -> CausalConv1dBuffers:
    """Bytes of workspace and reserve space (cudnnLongFFTCausalConv1dGetBufferSizes)."""
    shapes = _long_shapes(batch, dim, seq_len, kernel_size, data_type)
    return _buffer_sizes(find_library("cudnn", library), shapes)


def long_fft_causal_conv1d_forward(
    stream: Stream,
    x: Any,
    weight: Any,
    y: Any,
    batch: int,
    dim: int,
    seq_len: int,
    kernel_size: int,
    data_type: Any,
    workspace: Any,
    reserve_space: Any,
    *,
    library: Library | str | None = None,
) -> None:
    """As ``fft_causal_conv1d_forward``, over a whole sequence (cudnnLongFFTCausalConv1dForward).

    ``kernel_size`` equals ``seq_len``, a power of 2 from 4096 to 2**24 (2**23 for float64). The
    reserve space keeps the spectra for ``long_fft_causal_conv1d_backward``.
    """
    shapes = _long_shapes(batch, dim, seq_len, kernel_size, data_type)
    with stream_call(stream, library) as call:
        addresses = shapes.addresses(call, {"x": x, "weight": weight}, {"y": y})
        buffers = _buffers(call, shapes, workspace, reserve_space, writes=True)
        call(
            "cudnnLongFFTCausalConv1dForward",
            *addresses, *shapes.sizes, shapes.data_type, *buffers,
        )  # fmt: skip


def long_fft_causal_conv1d_backward(
    stream: Stream,
    dy: Any,
    dx: Any,
    dweight: Any,
    batch: int,
    dim: int,
    seq_len: int,
    kernel_size: int,
    data_type: Any,
    workspace: Any,
    reserve_space: Any,
    *,
    library: Library | str | None = None,
) -> None:
    """Gradients, both set, from the forward call's reserve space
    (cudnnLongFFTCausalConv1dBackward)."""
    shapes = _long_shapes(batch, dim, seq_len, kernel_size, data_type)
    with stream_call(stream, library) as call:
        addresses = shapes.addresses(call, {"dy": dy}, {"dx": dx, "dweight": dweight})
        buffers = _buffers(call, shapes, workspace, reserve_space, writes=False)
        call(
            "cudnnLongFFTCausalConv1dBackward",
            *addresses, *shapes.sizes, shapes.data_type, *buffers,
        )  # fmt: skip


# ---- checks --------------------------------------------------------------------------------------


def _data_type(value: Any) -> DataType:
    data_type = dtypes.to_data_type(value, "data_type")
    if data_type not in _TYPES:
        known = ", ".join(dtypes.name(known) for known in _TYPES)
        raise TypeError(f"data_type must be one of {known}, got {value!r}")
    return data_type


def _gradient_type(data_type: DataType) -> DataType:
    """That of the gradients of weights, which are sums."""
    return DataType.DOUBLE if data_type == DataType.DOUBLE else DataType.FLOAT


def _integers(sizes: tuple[int, ...], names: str) -> tuple[int, ...]:
    return tuple(
        integer(size, name, 1) for size, name in zip(sizes, names.split(), strict=True)
    )


class _Shapes:
    """Sizes and data type of the direct functions, and the shapes that follow."""

    def __init__(
        self, function: str, sizes: tuple[int, ...], data_type: Any, activation: Any
    ) -> None:
        self.sizes = _integers(sizes, "batch dim seq_len kernel_size")
        batch, dim, steps, taps = self.sizes
        innermost = "Nwh" in function
        known = _KERNEL_SIZES[:-1] if innermost else _KERNEL_SIZES
        if taps not in known:
            raise ValueError(f"kernel_size must be one of {known}, got {taps}")
        self.data_type = _data_type(data_type)
        self.activation = member(CausalConv1dActivation, activation, "activation")
        self.data = (batch, steps, dim) if innermost else (batch, dim, steps)
        self.weight = (taps, dim) if innermost else (dim, taps)
        self.bias = (dim,)

    def inputs(self, call: StreamCall, x: Any, weight: Any, bias: Any) -> list[int]:
        """Their addresses."""
        return [
            call.read(x, "x", self.data, self.data_type),
            call.read(weight, "weight", self.weight, self.data_type),
            call.read(bias, "bias", self.bias, self.data_type),
        ]


def _forward(
    function: str,
    stream: Stream,
    operands: tuple[Any, ...],
    sizes: tuple[int, ...],
    data_type: Any,
    activation: Any,
    library: Library | str | None,
) -> None:
    shapes = _Shapes(function, sizes, data_type, activation)
    *inputs, y = operands
    with stream_call(stream, library) as call:
        call(
            function,
            *shapes.inputs(call, *inputs), call.write(y, "y", shapes.data, shapes.data_type),
            *shapes.sizes, shapes.data_type, shapes.activation,
        )  # fmt: skip


def _backward(
    function: str,
    stream: Stream,
    operands: tuple[Any, ...],
    sizes: tuple[int, ...],
    data_type: Any,
    activation: Any,
    library: Library | str | None,
) -> None:
    shapes = _Shapes(function, sizes, data_type, activation)
    gradient_type = _gradient_type(shapes.data_type)
    *inputs, dy, dx, dweight, dbias = operands
    with stream_call(stream, library) as call:
        call(
            function,
            *shapes.inputs(call, *inputs),
            call.read(dy, "dy", shapes.data, shapes.data_type),
            call.write(dx, "dx", shapes.data, shapes.data_type),
            call.write(dweight, "dweight", shapes.weight, gradient_type),
            call.write(dbias, "dbias", shapes.bias, gradient_type),
            *shapes.sizes, shapes.data_type, gradient_type, shapes.activation,
        )  # fmt: skip


class _GatedShapes:
    """Sizes and data type of the two convolutions with gates, and the shapes that follow."""

    def __init__(self, sizes: tuple[int, ...], data_type: Any) -> None:
        names = "batch dim seq_len kernel_size_proj kernel_size_mixer"
        self.sizes = _integers(sizes, names)
        batch, dim, steps, short, long = self.sizes
        for name, taps, largest in (
            ("kernel_size_proj", short, 32), ("kernel_size_mixer", long, 256)
        ):  # fmt: skip
            if not 2 <= taps <= largest:
                raise ValueError(f"{name} must be in [2, {largest}], got {taps}")
        self.data_type = _data_type(data_type)
        self.x, self.out = (batch, dim, 3, steps), (batch, dim, steps)
        self.projection, self.mixer, self.skip = (dim, 3, short), (dim, long), (dim,)

    def inputs(self, call: StreamCall, x: Any, proj: Any, mixer: Any, skip: Any) -> list[int]:
        """Their addresses."""
        return [
            call.read(x, "x", self.x, self.data_type),
            call.read(proj, "weights_proj", self.projection, self.data_type),
            call.read(mixer, "weights_mixer", self.mixer, self.data_type),
            call.read(skip, "skip_bias", self.skip, self.data_type),
        ]


class _FourierShapes:
    """Sizes and data type of the FFT functions, and the shapes that follow."""

    def __init__(
        self, sizes: tuple[int, ...], data_type: Any, low: int, high: int, high_double: int
    ) -> None:
        self.sizes = _integers(sizes, "batch dim seq_len kernel_size")
        batch, dim, self.steps, self.taps = self.sizes
        self.data_type = _data_type(data_type)
        if self.data_type == DataType.DOUBLE:
            high = high_double
        if not low <= self.taps <= high or self.taps & (self.taps - 1):
            raise ValueError(
                f"kernel_size must be a power of 2 in [{low}, {high}], got {self.taps}"
            )
        self.data, self.weight = (batch, dim, self.steps), (dim, self.taps)

    def addresses(
        self, call: StreamCall, reads: dict[str, Any], writes: dict[str, Any]
    ) -> list[int]:
        """Of operands by name, in the order given; each at a multiple of 16 bytes."""
        found = []
        for operands, access in ((reads, call.read), (writes, call.write)):
            for name, value in operands.items():
                shape = self.weight if "weight" in name else self.data
                found.append(_aligned(access(value, name, shape, self.data_type), name))
        return found


def _aligned(address: int, name: str) -> int:
    if address % _ALIGNMENT:
        raise ValueError(f"{name} must start at a multiple of {_ALIGNMENT} bytes, got {address:#x}")
    return address


def _long_shapes(
    batch: int, dim: int, seq_len: int, kernel_size: int, data_type: Any
) -> _FourierShapes:
    shapes = _FourierShapes((batch, dim, seq_len, kernel_size), data_type, 4096, 2**24, 2**23)
    if shapes.steps != shapes.taps:
        raise ValueError(f"seq_len must be kernel_size, {shapes.taps}, got {shapes.steps}")
    return shapes


def _buffer_sizes(library: Library, shapes: _FourierShapes) -> CausalConv1dBuffers:
    sizes = [ctypes.c_size_t() for _ in range(2)]
    with _core.ColdCall(library) as call:
        call(
            "cudnnLongFFTCausalConv1dGetBufferSizes",
            *shapes.sizes, shapes.data_type, *map(ctypes.byref, sizes),
        )  # fmt: skip
    return CausalConv1dBuffers(*(size.value for size in sizes))


def _buffers(
    call: StreamCall, shapes: _FourierShapes, workspace: Any, reserve_space: Any, *, writes: bool
) -> list[int]:
    """Address and size of workspace and reserve space; the forward function writes to both."""
    sizes = _buffer_sizes(call.library, shapes)
    return [
        _aligned(call.scratch(workspace, "workspace", sizes.workspace), "workspace"),
        sizes.workspace,
        _aligned(
            call.scratch(reserve_space, "reserve_space", sizes.reserve_space, writes=writes),
            "reserve_space",
        ),
        sizes.reserve_space,
    ]
