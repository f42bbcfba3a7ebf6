"""Types of the Cython extension; the docstrings are in _guard.pyx."""

from collections.abc import Callable
from typing import Any

class Guard:
    def __init__(self, function: Callable[..., Any], state: Any, failure: int) -> None: ...
    def __call__(self, *arguments: Any) -> Any: ...
