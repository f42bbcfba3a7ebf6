"""Connectionist temporal classification: the loss of label sequences over all their alignments."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

from pycudnn import _core, dtypes
from pycudnn.abi.cudnn_enums import CTCGradMode, CTCLossAlgo, DataType, LossNormalizationMode
from pycudnn.cudnn._objects import (
    construct,
    int_array,
    integer,
    integers,
    member,
    optional,
    require,
)
from pycudnn.cudnn._objects import (
    workspace as scratch,
)
from pycudnn.cudnn.handle import Handle
from pycudnn.cudnn.tensor import TensorDescriptor
from pycudnn.libraries import Library, find_library

_SETTERS = {
    6: "cudnnSetCTCLossDescriptor",
    7: "cudnnSetCTCLossDescriptorEx",
    8: "cudnnSetCTCLossDescriptor_v8",
    9: "cudnnSetCTCLossDescriptor_v9",
}


class CTCLossDescriptor(_core.Owned):
    """How a CTC loss is computed (cudnnSetCTCLossDescriptor_v9).

    With ``normalization`` SOFTMAX the input is any scores, with NONE it is probabilities, of which
    there are costs alone: cuDNN's gradients then are wrong for symbols that no alignment has.
    ``gradient_mode`` says what becomes of the gradients of a label that is too long for its input:
    set to zero, or left as they are. ``max_label_length`` bounds the labels of ``ctc_loss_v8``;
    ``ctc_loss`` does not use it. ``compute_type`` is float32 or float64.

    ``version`` 6, 7 or 8 sets the descriptor as cuDNN of that time did (cudnnSetCTCLossDescriptor,
    ...Ex, ..._v8): 6 takes no option but the compute type, 7 no ``max_label_length``. ValueError
    for a negative length, an unknown enum, or an option that the version does not take.
    """

    c_type = "cudnnCTCLossDescriptor_t"
    library: Library

    def __init__(
        self,
        compute_type: Any = DataType.FLOAT,
        *,
        normalization: LossNormalizationMode | None = None,
        gradient_mode: CTCGradMode = CTCGradMode.ZERO_OOB_GRADIENTS,
        max_label_length: int = 0,
        version: int = 9,
        library: Library | str | None = None,
    ) -> None:
        computed_in = dtypes.to_data_type(compute_type, "compute_type")
        version = integer(version, "version", min(_SETTERS), max(_SETTERS))
        if normalization is None:
            default = LossNormalizationMode.NONE if version == 6 else LossNormalizationMode.SOFTMAX
            normalization = default
        options = {
            "normalization": member(LossNormalizationMode, normalization, "normalization"),
            "gradient_mode": member(CTCGradMode, gradient_mode, "gradient_mode"),
            "max_label_length": integer(max_label_length, "max_label_length", 0),
        }
        names = list(options)[: {6: 0, 7: 2}.get(version, 3)]
        for name in options.keys() - set(names):
            if options[name]:
                raise ValueError(f"{_SETTERS[version]} takes no {name}, got {options[name]!r}")

        def set_up(call: _core.ColdCall) -> None:
            call(_SETTERS[version], self, computed_in, *(options[name] for name in names))

        settings = {"compute_type": computed_in, **options}
        construct(self, find_library("cudnn", library), "CTCLossDescriptor", settings, set_up)

    def _read(self) -> tuple[DataType, LossNormalizationMode, CTCGradMode, int]:
        values = [ctypes.c_int() for _ in range(4)]
        with _core.ColdCall(self.library) as call:
            call("cudnnGetCTCLossDescriptor_v9", self, *map(ctypes.byref, values))
        computed_in, normalization, mode, longest = (value.value for value in values)
        return (
            DataType(computed_in),
            LossNormalizationMode(normalization),
            CTCGradMode(mode),
            longest,
        )

    @property
    def compute_type(self) -> DataType:
        """What is computed in."""
        return self._read()[0]

    @property
    def normalization(self) -> LossNormalizationMode:
        """Is the input scores (SOFTMAX) or probabilities (NONE)?"""
        return self._read()[1]

    @property
    def gradient_mode(self) -> CTCGradMode:
        """What becomes of the gradients of a label that is too long for its input."""
        return self._read()[2]

    @property
    def max_label_length(self) -> int:
        """The longest label that ``ctc_loss_v8`` takes."""
        return self._read()[3]

    def __repr__(self) -> str:
        if self.closed:
            return "<closed CTCLossDescriptor>"
        computed_in, normalization, mode, longest = self._read()
        return (
            f"CTCLossDescriptor({computed_in.name}, normalization={normalization.name}, "
            f"gradient_mode={mode.name}, max_label_length={longest})"
        )


def get_ctc_loss_workspace_size(
    handle: Handle,
    probs_desc: TensorDescriptor,
    gradients_desc: TensorDescriptor | None,
    labels: Iterable[int],
    label_lengths: Iterable[int],
    input_lengths: Iterable[int],
    algo: CTCLossAlgo,
    loss: CTCLossDescriptor,
) -> int:
    """Bytes of workspace that ``ctc_loss`` needs (cudnnGetCTCLossWorkspaceSize)."""
    gradients_desc = _check(handle, loss, probs_desc, gradients_desc)
    algo = member(CTCLossAlgo, algo, "algo")
    host = _host_arrays(probs_desc, labels, label_lengths, input_lengths)
    size = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call(
            "cudnnGetCTCLossWorkspaceSize",
            handle, probs_desc, gradients_desc, *host, algo, loss, ctypes.byref(size),
        )  # fmt: skip
    return size.value


def get_ctc_loss_workspace_size_v8(
    handle: Handle,
    algo: CTCLossAlgo,
    loss: CTCLossDescriptor,
    probs_desc: TensorDescriptor,
    gradients_desc: TensorDescriptor | None,
) -> int:
    """Bytes of workspace that ``ctc_loss_v8`` needs (cudnnGetCTCLossWorkspaceSize_v8)."""
    gradients_desc = _check(handle, loss, probs_desc, gradients_desc)
    algo = member(CTCLossAlgo, algo, "algo")
    size = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call(
            "cudnnGetCTCLossWorkspaceSize_v8",
            handle, algo, loss, probs_desc, gradients_desc, ctypes.byref(size),
        )  # fmt: skip
    return size.value


def ctc_loss(
    handle: Handle,
    probs_desc: TensorDescriptor,
    probs: Any,
    labels: Iterable[int],
    label_lengths: Iterable[int],
    input_lengths: Iterable[int],
    costs: Any,
    gradients_desc: TensorDescriptor | None,
    gradients: Any,
    algo: CTCLossAlgo,
    loss: CTCLossDescriptor,
    workspace: Any,
) -> None:
    """CTC losses of a batch and their gradients, labels on the host (cudnnCTCLoss).

    ``probs`` is (T, N, A): time steps, sequences, symbols; symbol 0 is the blank. ``labels`` are
    the symbols of all N sequences, one sequence after another; ``label_lengths`` and
    ``input_lengths`` have one int per sequence. All three are ints on the host. ``costs`` takes N
    numbers, minus the log-probability of each label; ``gradients`` what changes them with
    ``probs``, or None with ``gradients_desc`` None for the costs alone. They lie like ``probs``.
    Those of time steps behind a sequence's input length mean nothing: they are 0 or as before.

    A label that no alignment fits, as its symbols and the blanks between equal ones outnumber the
    time steps, has the cost 0, and all its gradients are as ``loss.gradient_mode`` says.

    ValueError for labels outside of [1, A), lengths that do not fit (empty labels too, which cuDNN
    gets wrong), gradients with normalization NONE or with strides of their own, symbols that are
    not next to each other in memory, or too little memory; CudnnNotSupported for data types and
    sizes that cuDNN has no CTC loss for.
    """
    gradients_desc = _check(handle, loss, probs_desc, gradients_desc)
    algo = member(CTCLossAlgo, algo, "algo")
    _check_gradients(loss, gradients)
    host = _host_arrays(probs_desc, labels, label_lengths, input_lengths)
    needed = ctypes.c_size_t()
    with _core.ColdCall(handle.library, handle) as call:
        call(
            "cudnnGetCTCLossWorkspaceSize",
            handle, probs_desc, gradients_desc, *host, algo, loss, ctypes.byref(needed),
        )  # fmt: skip
        data = _operands(call, probs_desc, probs, costs, gradients_desc, gradients)
        space = scratch(call, workspace, needed.value)
        call.keep_apart()
        call(
            "cudnnCTCLoss",
            handle, probs_desc, data[0], *host, data[1], gradients_desc, data[2], algo, loss,
            *space,
        )  # fmt: skip


def ctc_loss_v8(
    handle: Handle,
    algo: CTCLossAlgo,
    loss: CTCLossDescriptor,
    probs_desc: TensorDescriptor,
    probs: Any,
    labels: Any,
    label_lengths: Any,
    input_lengths: Any,
    costs: Any,
    gradients_desc: TensorDescriptor | None,
    gradients: Any,
    workspace: Any,
) -> None:
    """As ``ctc_loss``, with labels and lengths on the device, as int32 (cudnnCTCLoss_v8).

    So it can be captured into a graph. Nobody checks the labels' values: each must be in [1, A),
    and no label empty or longer than the descriptor's ``max_label_length``.
    """
    require(loss, CTCLossDescriptor, "loss")
    _check_gradients(loss, gradients)
    needed = get_ctc_loss_workspace_size_v8(handle, algo, loss, probs_desc, gradients_desc)
    gradients_desc = probs_desc if gradients_desc is None else gradients_desc
    lengths_desc = _row(probs_desc, DataType.INT32)
    with _core.ColdCall(handle.library, handle) as call:
        addresses = [
            _label_address(call, labels),
            call.operand(label_lengths, "label_lengths", False, lengths_desc),
            call.operand(input_lengths, "input_lengths", False, lengths_desc),
        ]
        device = [ctypes.cast(address, ctypes.POINTER(ctypes.c_int)) for address in addresses]
        data = _operands(call, probs_desc, probs, costs, gradients_desc, gradients)
        space, nbytes = scratch(call, workspace, needed)
        call.keep_apart()
        call(
            "cudnnCTCLoss_v8",
            handle, algo, loss, probs_desc, data[0], *device, data[1], gradients_desc,
            data[2], nbytes, space,
        )  # fmt: skip


def _check(
    handle: Handle,
    loss: CTCLossDescriptor,
    probs_desc: TensorDescriptor,
    gradients_desc: TensorDescriptor | None,
) -> TensorDescriptor:
    """The gradients' descriptor: that of the probabilities where there are none."""
    require(handle, Handle, "handle")
    require(loss, CTCLossDescriptor, "loss")
    require(probs_desc, TensorDescriptor, "probs_desc")
    if len(probs_desc.shape) != 3:
        raise ValueError(f"probs_desc must be (T, N, A), got shape {probs_desc.shape}")
    if probs_desc.strides[2] != 1:  # cuDNN takes it for 1, whatever it is
        raise ValueError(
            f"probs_desc must have the stride 1 between symbols, the last dimension, "
            f"got strides {probs_desc.strides}"
        )
    if gradients_desc is None:
        return probs_desc
    require(gradients_desc, TensorDescriptor, "gradients_desc")
    for what in ("shape", "strides"):  # cuDNN takes the strides of probs for both
        wanted, got = getattr(probs_desc, what), getattr(gradients_desc, what)
        if wanted != got:
            raise ValueError(f"gradients_desc must have the {what} of probs, {wanted}, got {got}")
    return gradients_desc


def _check_gradients(loss: CTCLossDescriptor, gradients: Any) -> None:
    """For a symbol that no alignment has, cuDNN's gradient of NONE is its probability, not 0."""
    if gradients is not None and loss.normalization == LossNormalizationMode.NONE:
        raise ValueError(
            "gradients must be None with the normalization NONE, as cuDNN's are wrong: use SOFTMAX "
            "with logarithms of probabilities"
        )


def _host_arrays(
    probs_desc: TensorDescriptor,
    labels: Iterable[int],
    label_lengths: Iterable[int],
    input_lengths: Iterable[int],
) -> tuple[Any, Any, Any]:
    """C arrays of the labels and lengths, which cuDNN reads without a check."""
    steps, batch, symbols = probs_desc.shape
    lengths = _host_ints(label_lengths, "label_lengths", 1, steps, batch)
    times = _host_ints(input_lengths, "input_lengths", 1, steps, batch)
    return (
        int_array(_host_ints(labels, "labels", 1, symbols - 1, sum(lengths))),
        int_array(lengths),
        int_array(times),
    )


def _host_ints(value: Any, name: str, low: int, high: int, count: int) -> tuple[int, ...]:
    if not isinstance(value, Iterable) or isinstance(value, _core.Buffer):
        raise TypeError(f"{name} must be ints on the host, got {value!r}")
    numbers = integers(value, name, low)
    if len(numbers) != count:
        raise ValueError(f"{name} must have {count} ints, got {len(numbers)}")
    for index, number in enumerate(numbers):
        if number > high:
            raise ValueError(f"{name}[{index}] must be in [{low}, {high}], got {number}")
    return numbers


def _row(probs_desc: TensorDescriptor, dtype: Any) -> TensorDescriptor:
    """A descriptor of one number per sequence, to check memory against."""
    return TensorDescriptor((1, probs_desc.shape[1]), dtype, library=probs_desc.library)


def _label_address(call: _core.ColdCall, labels: Any) -> int:
    dtype = str(getattr(labels, "dtype", "int32"))
    if not dtype.endswith("int32"):
        raise TypeError(f"labels must hold int32, got {dtype}")
    return call.operand(labels, "labels", False, None, 4)


def _operands(
    call: _core.ColdCall,
    probs_desc: TensorDescriptor,
    probs: Any,
    costs: Any,
    gradients_desc: TensorDescriptor,
    gradients: Any,
) -> tuple[int, int, int]:
    """Addresses of probabilities, costs and gradients."""
    return (
        call.operand(probs, "probs", False, probs_desc),
        call.operand(costs, "costs", True, _row(probs_desc, DataType(probs_desc.dtype_code))),
        optional(call, gradients, "gradients", True, gradients_desc),
    )
