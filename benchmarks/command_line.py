"""What options of a command line may be, checked before any work: one line, no traceback."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from pycudnn import get_library
from pycudnn.device import Device
from pycudnn.errors import PycudnnError


def at_least(
    least: float, kind: type = int, *, above: bool = False, most: float = math.inf
) -> Callable[[str], Any]:
    """Make the reader of an option: a finite number of at least ``least``, or above it."""

    def read(text: str) -> Any:
        bound = f"{'above' if above else 'at least'} {least:g}"
        if most < math.inf:
            bound += f" and at most {most:g}"
        try:
            value = kind(text)
        except ValueError:
            noun = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"must be {noun} {bound}, got {text!r}") from None
        if not (least < value if above else least <= value) or value > most or value == math.inf:
            raise argparse.ArgumentTypeError(f"must be {bound}, got {text}")
        return value

    return read


def check_names(
    parser: argparse.ArgumentParser, option: str, names: Sequence[str], known: Collection[str]
) -> None:
    """Refuse names that are not among the known ones, and show those that are like them."""
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, 5, 0.7)
            there = f"close to it: {', '.join(close)}" if close else f"known: {', '.join(known)}"
            parser.error(f"{option} {name}: there is none of this name; {there}")


def check_backend(parser: argparse.ArgumentParser, backend: str | None) -> None:
    """Refuse a backend without a device or libraries; None is the default one."""
    try:
        device = Device(backend)
        for name in ("cudnn", "cublas"):
            get_library(name, device.backend)
    except (ValueError, PycudnnError) as error:
        parser.error(f"--backend {backend or 'auto'}: {error}")


def check_file(parser: argparse.ArgumentParser, option: str, path: Path | None) -> None:
    """Refuse a file whose folder is not there."""
    if path is not None and not path.absolute().parent.is_dir():
        parser.error(f"{option} {path}: there is no folder {path.parent}")


def check_picture(parser: argparse.ArgumentParser, option: str, path: Path | None) -> None:
    """Refuse what is no .png file in a folder that is there, and any without matplotlib."""
    if path is None:
        return
    check_package(parser, option, "matplotlib")
    if path.suffix != ".png" or path.is_dir():
        parser.error(f"{option} {path}: must be a .png file")
    check_file(parser, option, path)


def check_package(parser: argparse.ArgumentParser, option: str, package: str) -> None:
    """Fail before the work, not after it."""
    try:
        __import__(package)
    except ImportError:
        parser.error(f"{option} needs the package {package}: pip install {package}")


def make_folder(parser: argparse.ArgumentParser, option: str, path: Path | None) -> None:
    """Make the folder of an output; refuse one that cannot be made."""
    try:
        if path is not None:
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"{option} {path}: {error.strerror}")


@contextlib.contextmanager
def refusing(parser: argparse.ArgumentParser) -> Iterator[None]:
    """Report what the options ask for and cannot be had as their error."""
    try:
        yield
    except (ValueError, MemoryError, PycudnnError) as error:
        parser.error(str(error))
