"""What pycudnn finds on this machine: packages, driver, GPUs, libraries, and what is missing."""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from pycudnn import loader
from pycudnn.errors import LibraryNotFound
from pycudnn.settings import SETTINGS, config

PACKAGES = ("numpy", "ml_dtypes", "cuda-core", "cuda-bindings", "cuda-pathfinder")
EXTENSIONS = ("pycudnn._core", "pycudnn._core_blas", "pycudnn._guard")


def _package_versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def _driver() -> dict[str, Any]:
    """The driver's own version and the newest CUDA version it supports; None without a driver."""
    cuda = loader.driver_cuda_version()
    version = None
    module = Path("/proc/driver/nvidia/version")
    if module.exists():
        match = re.search(r"\b\d+\.\d+(\.\d+)?\b", module.read_text())
        version = match and match[0]
    return {
        "cuda": None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        "version": version,
    }


def _gpus() -> tuple[list[dict[str, Any]], str | None]:
    """The GPUs, and why there are none."""
    try:
        from cuda.bindings import runtime
    except ImportError:
        return [], f"cuda-python is not installed: pip install '{loader.extra()}'"
    status, count = runtime.cudaGetDeviceCount()  # the one question that is safe without a driver
    if status != 0:
        return [], f"cudaGetDeviceCount returned {status.name} ({int(status)})"
    gpus: list[dict[str, Any]] = []
    for index in range(count):
        status, properties = runtime.cudaGetDeviceProperties(index)
        if status != 0:
            return gpus, f"cudaGetDeviceProperties({index}) returned {status.name} ({int(status)})"
        name = properties.name
        gpus.append(
            {
                "index": index,
                "name": name.decode() if isinstance(name, bytes) else name,
                "compute_capability": f"{properties.major}.{properties.minor}",
                "memory": int(properties.totalGlobalMem),
            }
        )
    return gpus, None if gpus else "the driver reports no device"


def config_info() -> dict[str, Any]:
    """All that show_config prints, as plain dicts, lists and strings.

    Keys: pycudnn, python, platform, extensions, packages, driver, gpus, libraries (by name: either
    version, path, cuda_major, origin, or error), mixes, default_backend, settings, missing.
    """
    gpus, no_gpus = _gpus()
    driver = _driver()
    missing = [] if driver["cuda"] else ["no NVIDIA driver: work runs on the reference library"]
    missing += [no_gpus] if no_gpus else []
    libraries: dict[str, dict[str, Any]] = {}
    loaded = []
    for name in loader.TITLES:
        try:
            library = loader.load(name)
        except LibraryNotFound as error:
            libraries[name] = {"error": str(error)}
            missing.append(f"{loader.TITLES[name]}: pip install '{loader.extra()}'")
            continue
        loaded.append(library)
        libraries[name] = {
            "version": loader.version_text(library.version),
            "path": library.path,
            "cuda_major": library.cuda_major,
            "origin": library.origin,
        }
    extensions = {name: importlib.util.find_spec(name) is not None for name in EXTENSIONS}
    missing += [
        f"{name} is not built: pip install . (needs a C compiler)"
        for name, built in extensions.items()
        if not built
    ]
    try:
        from pycudnn.device import default_backend

        backend = default_backend()
    except ValueError as error:
        backend = str(error)
    return {
        "pycudnn": _own_version(),
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "extensions": extensions,
        "packages": _package_versions(),
        "driver": driver,
        "gpus": gpus,
        "libraries": libraries,
        "mixes": loader.mixes(loaded),
        "default_backend": backend,
        "settings": _settings(),
        "missing": missing,
    }


def _settings() -> dict[str, Any]:
    """The settings, or what is wrong with the environment variable of one."""
    found: dict[str, Any] = {}
    for name in SETTINGS:
        try:
            found[name] = getattr(config, name)
        except ValueError as error:
            found[name] = f"unknown: {error}"
    return found


def _own_version() -> str:
    import pycudnn

    return pycudnn.__version__


def _lines(info: dict[str, Any]) -> list[str]:
    """The report as text."""
    packages = (f"{name} {version or 'missing'}" for name, version in info["packages"].items())
    extensions = (
        f"{name} {'built' if built else 'missing'}" for name, built in info["extensions"].items()
    )
    driver = info["driver"]
    lines = [
        f"pycudnn          {info['pycudnn']}",
        f"Python           {info['python']}",
        f"platform         {info['platform']}",
        f"extensions       {', '.join(extensions)}",
        f"packages         {', '.join(packages)}",
        "driver           "
        + (f"{driver['version'] or 'found'}, CUDA {driver['cuda']}" if driver["cuda"] else "none"),
    ]
    for gpu in info["gpus"]:
        lines.append(
            f"GPU {gpu['index']}            {gpu['name']}, compute capability "
            f"{gpu['compute_capability']}, {gpu['memory'] / 2**30:.1f} GiB"
        )
    if not info["gpus"]:
        lines.append("GPU              none")
    for name, library in info["libraries"].items():
        title = loader.TITLES[name].ljust(16)
        if "error" in library:
            lines.append(f"{title} {library['error'].replace(chr(10), chr(10) + ' ' * 17)}")
        else:
            lines.append(
                f"{title} {library['version']} for CUDA {library['cuda_major']}, "
                f"{library['origin']}: {library['path']}"
            )
    lines.append(f"default backend  {info['default_backend']}")
    settings = (f"{name} {value}" for name, value in info["settings"].items())
    lines.append(f"settings         {', '.join(settings)}")
    lines += [f"mixed            {line}" for line in info["mixes"]]
    lines += [f"missing          {line}" for line in info["missing"]]
    return lines


def show_config(as_dict: bool = False) -> dict[str, Any] | None:
    """Print versions, driver, GPUs, libraries and what is missing; with as_dict return it instead.

    Works without a GPU, without a driver and without any CUDA package. See config_info for the
    keys of the dict.
    """
    info = config_info()
    if as_dict:
        return info
    print("\n".join(_lines(info)))
    return None
