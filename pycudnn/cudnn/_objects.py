"""What the constructors of all descriptors share."""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from pycudnn import _core
from pycudnn.abi.cudnn_enums import CUDNN_DIM_MAX, DataType, MathType
from pycudnn.abi.members import member
from pycudnn.abi.types import ctypes_type
from pycudnn.errors import StatusError
from pycudnn.libraries import Library
from pycudnn.settings import config

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


def construct(
    owned: _core.Owned,
    library: Library,
    noun: str,
    settings: dict[str, Any],
    set_up: Callable[[_core.ColdCall], None],
) -> None:
    """Create the C object of a descriptor, set it, and free it again if setting fails.

    ``noun`` is the C name without verb: cudnnCreate<noun>, cudnnDestroy<noun>. ``settings`` are the
    constructor's, for comparing descriptors and for the error of a set that the library refuses.
    """
    pointer = ctypes_type(f"cudnn{noun}_t")()
    with _core.ColdCall(library) as call:
        call(f"cudnnCreate{noun}", ctypes.byref(pointer))
        owned._own(library, ctypes.cast(pointer, ctypes.c_void_p).value, f"cudnnDestroy{noun}")
        try:
            set_up(call)
        except StatusError as error:
            owned.close()
            given = [f"{name}: {value!r}" for name, value in settings.items()]
            raise type(error)(
                error.function, error.status, error.status_name, error.last_error, given
            ) from None
        except BaseException:
            owned.close()
            raise
    owned._set_once(settings)


def require(value: Any, kind: type, name: str) -> None:
    """TypeError unless an argument is of a class, ValueError if it is closed or was never made."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {value!r}")
    if isinstance(value, _core.Owned):
        _ = value.address


def integer(value: Any, name: str, low: int, high: int = INT_MAX) -> int:
    """An int in [low, high], or an error that names the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {value!r}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} must be in [{low}, {high}], got {number}")
    return number


def integers(value: Any, name: str, low: int, count: int | None = None) -> tuple[int, ...]:
    """A tuple of ints of at least ``low``; one int stands for ``count`` equal ones."""
    if isinstance(value, (Set, Mapping)):
        raise TypeError(f"{name} must be a sequence, which has an order, got {value!r}")
    is_number = getattr(value, "ndim", 1) == 0  # an array of no dimensions
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and not is_number:
        numbers = tuple(integer(item, f"{name}[{i}]", low) for i, item in enumerate(value))
        if count is not None and len(numbers) != count:
            raise ValueError(f"{name} must be an int or {count} ints, got {value!r}")
        return numbers
    return (integer(value, name, low),) * (count or 1)


def choose_math_type(value: Any, computed_in: DataType) -> MathType:
    """A math type. None: plain float32 for float32 unless ``config.tf32``, else DEFAULT_MATH."""
    if value is None:
        plain = computed_in == DataType.FLOAT and not config.tf32
        return MathType.FMA_MATH if plain else MathType.DEFAULT_MATH
    return member(MathType, value, "math_type")


def shape_of(value: Any, name: str) -> tuple[int, ...]:
    """Dimensions of a tensor or filter: 2 to 8 of them, each at least 1."""
    shape = integers(value, name, 1)
    if not isinstance(value, Iterable) or not 2 <= len(shape) <= CUDNN_DIM_MAX:
        raise ValueError(f"{name} must have 2 to {CUDNN_DIM_MAX} dimensions, got {value!r}")
    return shape


def int_array(values: Iterable[int]) -> Any:
    """A C array of ints."""
    numbers = tuple(values)
    return (ctypes.c_int * len(numbers))(*numbers)


def finite(value: Any, name: str, low: float | None = None, high: float | None = None) -> float:
    """A finite float in [low, high], or an error that names the argument."""
    number = real(value, name)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    if low is not None and number < low:
        raise ValueError(f"{name} must be at least {low:g}, got {number:g}")
    if high is not None and number > high:
        raise ValueError(f"{name} must be at most {high:g}, got {number:g}")
    return number


# ---- arguments of compute calls ------------------------------------------------------------------


def scaling(alpha: Any, beta: Any, dtype_code: int) -> tuple[Any, Any]:
    """Pointers to the scaling factors: double for float64 tensors, float for all others."""
    return factor(alpha, "alpha", dtype_code), factor(beta, "beta", dtype_code)


def factor(value: Any, name: str, dtype_code: int) -> Any:
    """Pointer to one scaling factor: a double for float64 tensors, a float for all others."""
    c_type = ctypes.c_double if dtype_code == DataType.DOUBLE else ctypes.c_float
    return ctypes.byref(c_type(real(value, name)))


def real(value: Any, name: str) -> float:
    """A number as a double, NaN and infinities included, or an error that names the argument."""
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a real number, got {value!r}") from None
    except OverflowError:
        digits = len(str(value))
        raise ValueError(f"{name} must fit a double, got a number of {digits} digits") from None


def workspace(
    call: _core.ColdCall, value: Any, needed: int, name: str = "workspace"
) -> tuple[int, int]:
    """Address and bytes of a scratch operand of at least ``needed`` bytes; None has none."""
    if value is None:
        if needed:
            raise ValueError(f"{name} needs {needed} bytes, got None")
        return 0, 0
    return call.operand(value, name, True, None, needed), value.nbytes


def optional(
    call: _core.ColdCall,
    value: Any,
    name: str,
    writes: bool,
    descriptor: _core.TensorLike | None = None,
) -> int:
    """Address of an operand that may be None, which is NULL."""
    return 0 if value is None else call.operand(value, name, writes, descriptor)
