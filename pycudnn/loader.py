"""Find, open and check the real libraries: libcudnn, libcublas, and libcublasLt beside it.

Places are searched in this order: what the process has loaded already, NVIDIA's wheels, conda,
CUDNN_PATH / CUDA_PATH and their kind, LD_LIBRARY_PATH, the usual system directories, the dynamic
linker's own search, and at last cuda.pathfinder where it is installed. Of several builds the one
that fits the driver is taken. Nothing here runs when pycudnn is imported.
"""

from __future__ import annotations

import ctypes
import difflib
import functools
import glob
import itertools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pycudnn import abi
from pycudnn.abi.removed import OLD_CUBLAS, REPLACEMENTS
from pycudnn.errors import FunctionNotFound, LibraryNotFound

TITLES = {"cudnn": "cuDNN", "cublas": "cuBLAS", "cublaslt": "cublasLt"}
# CUDA majors that cuDNN 9 and the tables cover, newest first.
CUDA_MAJORS = (13, 12)
# libcudnn is a front that opens these on first use, and it aborts the process if one is missing.
SUBLIBRARIES = ("graph", "ops", "cnn", "adv")


@dataclass(frozen=True)
class LoadedLibrary:
    """A library that is open in this process."""

    name: str
    path: str  # absolute
    cdll: ctypes.CDLL
    version: int  # as the library counts: cuDNN 9.28.1 is 92801, cuBLAS 13.10.0 is 131000
    cuda_major: int  # of the CUDA runtime that it was built with
    origin: str  # "wheel", "conda" or "system"


def version_text(version: int) -> str:
    """A library's version number in words: 92801 is 9.28.1, 131000 is 13.10.0."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def version_number(text: str) -> int:
    """The inverse of version_text: "9.28.1" is 92801."""
    major, minor, patch = map(int, text.split("."))
    return major * 10000 + minor * 100 + patch


def function_not_found(name: str, function: str, version: int | None = None) -> FunctionNotFound:
    """The exception for a function that the tables do not have; it names what to call instead.

    `version` is that of the library asked, None where none was.
    """
    if version is None:
        version = 90000 if name == "cudnn" else CUDA_MAJORS[0] * 10000
    text = f"{function} is not in {TITLES[name]} {version // 10000}.x"
    if function in REPLACEMENTS:
        return FunctionNotFound(f"{text}; use {REPLACEMENTS[function]}")
    today = OLD_CUBLAS.get(function, versioned_name(name, function))
    if today != function:
        return FunctionNotFound(
            f"{text} with a handle; use {today} ({function} itself is the symbol of the old "
            "interface)"
        )
    similar = difflib.get_close_matches(function, abi.prototypes(name), n=1)
    hint = f"; did you mean {similar[0]}?" if similar else ""
    return FunctionNotFound(f"{text}{hint}")


def versioned_name(name: str, function: str) -> str:
    """The symbol that the vendor's header stands in for `function`: cublasSgemm_v2, say."""
    base = function.removesuffix("_64")
    symbol = f"{base}_v2{function[len(base) :]}"
    return symbol if symbol in abi.prototypes(name) else function


@functools.cache
def driver_cuda_version() -> int | None:
    """Newest CUDA version that the NVIDIA driver supports (13000 is 13.0), None without one."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        version = ctypes.c_int()
        if driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return version.value


def extra() -> str:
    """The extra of pycudnn that brings the libraries for this machine."""
    version = driver_cuda_version()
    major = CUDA_MAJORS[0] if version is None else max(version // 1000, CUDA_MAJORS[-1])
    return f"pycudnn[cu{min(major, CUDA_MAJORS[0])}]"


def file_names(name: str, platform: str = sys.platform) -> list[str]:
    """File names of the library, newest CUDA major first."""
    windows = platform == "win32"
    if name == "cudnn":
        return ["cudnn64_9.dll" if windows else "libcudnn.so.9"]
    return [f"cublas64_{m}.dll" if windows else f"libcublas.so.{m}" for m in CUDA_MAJORS]


def _directories(name: str, platform: str) -> Iterator[Path]:
    windows = platform == "win32"
    binaries = "bin" if windows else "lib"
    for entry in map(Path, sys.path):
        if name == "cudnn":
            yield entry / "nvidia" / "cudnn" / binaries
        else:
            yield entry / "nvidia" / "cu13" / binaries / ("x86_64" if windows else "")
            yield entry / "nvidia" / "cublas" / binaries
    conda = os.environ.get("CONDA_PREFIX")
    if conda:
        yield Path(conda, "Library", "bin") if windows else Path(conda, "lib")
    for variable in ("CUDNN_PATH", "CUDNN_HOME", "CUDA_PATH", "CUDA_HOME"):
        root = os.environ.get(variable)
        if root:
            for part in ("bin/x64", "bin") if windows else ("lib64", "lib"):
                yield Path(root, part)
    if windows:
        # The installer of cuDNN keeps one directory per CUDA version: bin\12.9, bin\13.0\x64.
        root = os.path.join(os.environ.get("ProgramFiles", "C:\\Program Files"), "NVIDIA", "CUDNN")
        for directory in sorted(glob.glob(os.path.join(root, "v9*", "bin", "*")), reverse=True):
            yield Path(directory)
            yield Path(directory, "x64")
        return
    for directory in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if directory:
            yield Path(directory)
    for toolkit in ("/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"), reverse=True)):
        yield Path(toolkit, "lib64")
    for system in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"):
        yield Path(system)


def candidates(name: str, platform: str = sys.platform) -> list[str]:
    """Absolute paths where the library may be, best first, whether or not they exist."""
    paths = (
        os.path.abspath(directory / file)
        for directory in _directories(name, platform)
        for file in file_names(name, platform)
    )
    return list(dict.fromkeys(paths))


def sibling(path: str, part: str) -> str:
    """The file beside libcudnn or libcublas that holds a part: "_ops" of one, "Lt" of the other."""
    directory, file = os.path.split(path)
    return os.path.join(directory, re.sub(r"^((?:lib)?(?:cudnn|cublas))", rf"\1{part}", file))


def _loaded_path(cdll: ctypes.CDLL, symbol: str) -> str:
    """Absolute path of the file that an open library came from."""
    if sys.platform == "win32":
        buffer = ctypes.create_unicode_buffer(32768)
        ctypes.windll.kernel32.GetModuleFileNameW(ctypes.c_void_p(cdll._handle), buffer, 32768)
        return os.path.abspath(buffer.value)

    class DlInfo(ctypes.Structure):
        _fields_ = [
            ("dli_fname", ctypes.c_char_p),
            ("dli_fbase", ctypes.c_void_p),
            ("dli_sname", ctypes.c_char_p),
            ("dli_saddr", ctypes.c_void_p),
        ]

    info = DlInfo()
    address = ctypes.cast(getattr(cdll, symbol), ctypes.c_void_p)
    if not ctypes.CDLL(None).dladdr(address, ctypes.byref(info)):
        raise OSError(f"{symbol}: dladdr does not know it")
    return os.path.abspath(os.fsdecode(info.dli_fname))


def _origin(path: str) -> str:
    for entry in sys.path:
        if path.startswith(os.path.join(os.path.abspath(entry), "nvidia", "")):
            return "wheel"
    conda = os.environ.get("CONDA_PREFIX")
    if conda and path.startswith(os.path.join(os.path.abspath(conda), "")):
        return "conda"
    return "system"


_dll_directories: list[object] = []  # Windows forgets a directory when its cookie is collected


def _add_dll_directory(directory: str) -> None:
    _dll_directories.append(os.add_dll_directory(directory))  # type: ignore[attr-defined,unused-ignore]


def _open(name: str, file: str, mode: int = ctypes.DEFAULT_MODE) -> LoadedLibrary:
    """Open a library by path or by its bare name. OSError if it cannot be used."""
    if sys.platform == "win32" and os.path.isabs(file):
        _add_dll_directory(os.path.dirname(file))
    if name == "cublas":
        # The linker would take the first libcublasLt it finds, not the one that belongs here.
        light = ctypes.CDLL(sibling(file, "Lt"), mode)
        file = os.path.join(
            os.path.dirname(_loaded_path(light, "cublasLtGetVersion")), os.path.basename(file)
        )
    try:
        cdll = ctypes.CDLL(file, mode)
        if name == "cudnn":
            path = _loaded_path(cdll, "cudnnGetVersion")
            for part in SUBLIBRARIES:
                if not os.path.exists(sibling(path, f"_{part}")):
                    raise OSError(f"{sibling(path, f'_{part}')} is missing")
            version = abi.function_type(abi.prototype(name, "cudnnGetVersion"))(
                ("cudnnGetVersion", cdll)
            )()
            runtime = "cudnnGetCudartVersion"
        else:
            prefix = {"cublas": "cublas", "cublaslt": "cublasLt"}[name]
            path = _loaded_path(cdll, f"{prefix}GetProperty")
            version = 0
            for property_type in range(3):  # major, minor, patch
                value = ctypes.c_int()
                cdll[f"{prefix}GetProperty"](property_type, ctypes.byref(value))
                version = version * 100 + value.value
            runtime = f"{prefix}GetCudartVersion"
        cudart = abi.function_type(abi.prototype(name, runtime))((runtime, cdll))()
    except AttributeError as error:
        raise OSError(str(error)) from None
    return LoadedLibrary(name, path, cdll, version, cudart // 1000, _origin(path))


def _probe_cuda_major(path: str) -> int | None:
    """CUDA major of a libcudnn, asked in a child process; None if it cannot be loaded.

    A libcudnn that has answered leaves its parts in the process, where a second one would use
    them, so a build may only be asked here when it is the one to keep.
    """
    for part in SUBLIBRARIES:
        if not os.path.exists(sibling(path, f"_{part}")):
            return None
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cudnnGetCudartVersion())"
    child = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, path], capture_output=True, text=True, check=False
    )
    return int(child.stdout) // 1000 if child.returncode == 0 else None


def _order(name: str, paths: list[str], driver: int | None, other: int | None) -> list[str]:
    """Builds that fit the driver first, then those of the other library's CUDA major."""
    if len(paths) < 2:
        return paths

    def rank(path: str) -> tuple[bool, bool, int]:
        if name == "cublas":
            major = int(re.findall(r"\d+", os.path.basename(path))[-1])
        else:
            major = _probe_cuda_major(path) or 0
        return major == 0 or (driver is not None and major > driver), major != other, -major

    return sorted(paths, key=rank)


def _already_loaded(name: str) -> Iterator[LoadedLibrary]:
    """Builds that another package has opened in this process."""
    if hasattr(os, "RTLD_NOLOAD"):
        for file in file_names(name):
            try:
                yield _open(name, file, os.RTLD_NOLOAD | os.RTLD_NOW)
            except OSError:
                continue


def _found_by_pathfinder(name: str) -> str:
    try:
        from cuda import pathfinder
    except ImportError:
        raise OSError("not installed") from None
    try:
        path = pathfinder.load_nvidia_dynamic_lib(name).abs_path
    except Exception as error:  # its exceptions share no base class
        raise OSError(str(error).splitlines()[0] if str(error) else type(error).__name__) from None
    if path is None:
        raise OSError("gives no path")
    return path


def _load(name: str) -> LoadedLibrary:
    driver_version = driver_cuda_version()
    driver = None if driver_version is None else driver_version // 1000
    other = next((library.cuda_major for library in _loaded.values()), None)
    tried: list[str] = []
    misfit: LoadedLibrary | None = None

    def attempts() -> Iterator[LoadedLibrary]:
        yield from _already_loaded(name)
        present: list[str] = []
        for path in candidates(name):
            if not os.path.exists(path):
                tried.append(f"{path}: not there")
            elif not any(os.path.samefile(path, known) for known in present):
                present.append(path)
        for file in (*_order(name, present, driver, other), *file_names(name)):
            try:
                yield _open(name, file)
            except OSError as error:
                tried.append(f"{file}: {error}")
        try:
            yield _open(name, _found_by_pathfinder(name))
        except OSError as error:
            tried.append(f"cuda.pathfinder: {error}")

    for library in attempts():
        if driver is None or library.cuda_major <= driver:
            return library
        misfit = misfit or library
    if misfit is not None:
        raise LibraryNotFound(
            f"{misfit.path} is built for CUDA {misfit.cuda_major}, but the driver supports CUDA "
            f"{driver} at most: pip install '{extra()}', or install a newer driver"
        )
    raise LibraryNotFound(
        f"{TITLES[name]} ({' or '.join(file_names(name))}) was not found. Tried:\n"
        + "".join(f"  {line}\n" for line in tried)
        + f"To install it: pip install '{extra()}' (Linux or Windows with an NVIDIA GPU)"
    )


def _load_beside(cublas: LoadedLibrary) -> LoadedLibrary:
    path = sibling(cublas.path, "Lt")
    try:
        return _open("cublaslt", path)
    except OSError as error:
        raise LibraryNotFound(f"{path} cannot be used: {error}") from None


_loaded: dict[str, LoadedLibrary] = {}
_lock = threading.Lock()


def load(name: str) -> LoadedLibrary:
    """Open "cudnn", "cublas" or "cublaslt", once per process.

    cublasLt is the one beside cuBLAS, which is opened first.
    Raises LibraryNotFound with every path tried and what to install, or, in one line, the CUDA
    majors of library and driver where only a build for a newer CUDA is there.
    """
    if name not in TITLES:
        raise ValueError(f"name must be one of {', '.join(TITLES)}, got {name!r}")
    cublas = load("cublas") if name == "cublaslt" else None
    with _lock:
        if name not in _loaded:
            _loaded[name] = _load_beside(cublas) if cublas else _load(name)
        return _loaded[name]


def mixes(libraries: list[LoadedLibrary]) -> list[str]:
    """What does not belong together among these libraries, one line each."""
    lines = []
    for first, second in itertools.pairwise(libraries):
        pair = f"{TITLES[first.name]} and {TITLES[second.name]}"
        if first.cuda_major != second.cuda_major:
            lines.append(
                f"{pair} are built for different CUDA majors: {first.cuda_major} and "
                f"{second.cuda_major}"
            )
        if first.origin != second.origin:
            lines.append(
                f"{pair} come from different installations: {first.origin} ({first.path}) and "
                f"{second.origin} ({second.path})"
            )
    return lines
