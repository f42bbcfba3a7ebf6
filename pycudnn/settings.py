"""Settings that hold for cuDNN and cuBLAS alike: ``pycudnn.config``.

    pycudnn.config.tf32 = True                          # for the process
    with pycudnn.config.override(deterministic=True):   # for this thread, or asyncio task
        ...

The environment variables PYCUDNN_TF32, PYCUDNN_DETERMINISTIC (0 or 1) and PYCUDNN_WORKSPACE_LIMIT
(bytes, or "none") are read on first use; ValueError then, if one has another value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_SWITCHES = {"0": False, "": False, "1": True}


class Config:
    """Three settings, each with one meaning for every library. Values of other types are refused.

    A setting is read when an object is made or an algorithm chosen, so changing it does not change
    what is there already. An argument of the call goes before the setting.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._values: dict[str, Any] = {}  # those set or read so far
        self._overrides: ContextVar[dict[str, Any] | None] = ContextVar("config", default=None)

    @property
    def tf32(self) -> bool:
        """May float32 products be computed in TF32, which keeps 10 bits of each factor? False.

        The math type of convolution, RNN and attention descriptors, the engines that
        ``graph.Graph`` chooses among, the math mode of cuBLAS handles and the compute type of
        cublasLt products, where none is given.
        """
        return bool(self._get("tf32"))

    @tf32.setter
    def tf32(self, value: bool) -> None:
        self._set(tf32=value)

    @property
    def deterministic(self) -> bool:
        """Must the same call on the same data give the same bits? False.

        Algorithms and engines that the library does not report as deterministic are not chosen,
        cublasLt's heuristics leave out sums by atomic additions, and cuBLAS handles refuse
        ``atomics_mode`` ALLOWED.
        """
        return bool(self._get("deterministic"))

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        self._set(deterministic=value)

    @property
    def workspace_limit(self) -> int | None:
        """Most bytes of workspace that a chosen algorithm may need; None, the default: no limit."""
        limit: int | None = self._get("workspace_limit")
        return limit

    @workspace_limit.setter
    def workspace_limit(self, value: int | None) -> None:
        self._set(workspace_limit=value)

    @contextmanager
    def override(self, **settings: Any) -> Iterator[Config]:
        """Other settings inside a ``with`` block, for this thread or asyncio task alone."""
        checked = {name: _checked(name, value) for name, value in settings.items()}
        token = self._overrides.set({**(self._overrides.get() or {}), **checked})
        try:
            yield self
        finally:
            self._overrides.reset(token)

    def as_dict(self) -> dict[str, Any]:
        """The settings by name, as they hold here and now."""
        return {name: self._get(name) for name in _READERS}

    def _get(self, name: str) -> Any:
        overrides = self._overrides.get() or {}
        if name in overrides:
            return overrides[name]
        if name not in self._values:
            self._values[name] = _READERS[name](self._environment, f"PYCUDNN_{name.upper()}")
        return self._values[name]

    def _set(self, **settings: Any) -> None:
        for name, value in settings.items():
            self._values[name] = _checked(name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and name not in _READERS:
            raise AttributeError(_unknown(name))
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value}' for name, value in self.as_dict().items())})"


def _unknown(name: str) -> str:
    return f"there is no setting {name!r}: tf32, deterministic and workspace_limit are those"


def _checked(name: str, value: Any) -> Any:
    """The value of a setting, or an error that names it."""
    if name in ("tf32", "deterministic"):
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, got {value!r}")
    elif name == "workspace_limit":
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"workspace_limit must be an int (bytes) or None, got {value!r}")
        if value is not None and not 0 <= value < 2**63:
            raise ValueError(f"workspace_limit must be in [0, 2**63), got {value}")
    else:
        raise TypeError(_unknown(name))
    return value


def _switch(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(name, "0")
    if text not in _SWITCHES:
        raise ValueError(f"the environment variable {name} must be 0 or 1, got {text!r}")
    return _SWITCHES[text]


def _bytes(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "none")
    if text in ("", "none"):
        return None
    if not text.isdecimal():
        raise ValueError(f"the environment variable {name} must be bytes or none, got {text!r}")
    return int(_checked("workspace_limit", int(text)))


_READERS: dict[str, Callable[[Mapping[str, str], str], Any]] = {
    "tf32": _switch, "deterministic": _switch, "workspace_limit": _bytes,
}  # fmt: skip
SETTINGS = tuple(_READERS)

config = Config()
