"""The loader: where it looks, which build it takes, what it says when there is none.

Each case runs in a child process, since a library once open stays open. Builds that this machine
does not have are made with gcc: they export the few symbols that the loader asks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest

from pycudnn import loader

ROOT = Path(__file__).resolve().parents[1]
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="builds ELF libraries")


def run(code: str, *, first: list[Path] = (), keep_path: bool = False, **environment: str) -> str:
    """Run code in a child and give its output.

    `first` comes before sys.path, of which only Python's own directories stay unless `keep_path`:
    no wheel of this machine counts then.
    """
    prologue = f"""\
import sys
sys.path.insert(0, {str(ROOT)!r})
import pycudnn
from pycudnn import errors, libraries, loader, raw, show_config
own = [entry for entry in sys.path if "-packages" not in entry and entry != {str(ROOT)!r}]
sys.path[:] = {[str(entry) for entry in first]!r} + (sys.path if {keep_path} else own)
sys.modules.pop("cuda", None)  # cuda-bindings 12 imports it at start-up, with the path of then
"""
    kept = ("LD_LIBRARY_PATH", "CONDA_PREFIX", "CUDA_PATH", "CUDA_HOME", "CUDNN_PATH", "CUDNN_HOME")
    inherited = {key: value for key, value in os.environ.items() if key not in kept}
    child = subprocess.run(
        [sys.executable, "-c", prologue + textwrap.dedent(code)],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


def build(path: Path, source: str) -> Path:
    """Compile C source to a shared library."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", "-x", "c", "-", "-o", path]
    subprocess.run(command, input=source, text=True, check=True)
    return path


def build_cudnn(directory: Path, cuda: int, sublibraries: bool = True) -> Path:
    for part in loader.SUBLIBRARIES if sublibraries else ():
        build(directory / f"libcudnn_{part}.so.9", "")
    source = f"""\
#include <stddef.h>
size_t cudnnGetVersion(void) {{ return 90702; }}
size_t cudnnGetCudartVersion(void) {{ return {cuda * 1000 + 10}; }}
"""
    return build(directory / "libcudnn.so.9", source)


def build_cublas(directory: Path, cuda: int, light: bool = True) -> Path:
    if light:
        build(directory / f"libcublasLt.so.{cuda}", _cublas_source("cublasLt", cuda))
    return build(directory / f"libcublas.so.{cuda}", _cublas_source("cublas", cuda))


def _cublas_source(prefix: str, cuda: int) -> str:
    return f"""\
#include <stddef.h>
int {prefix}GetVersion(void) {{ return 1; }}
int {prefix}GetProperty(int type, int *value) {{
    *value = (int[]){{{cuda}, 3, 2}}[type];
    return 0;
}}
size_t {prefix}GetCudartVersion(void) {{ return {cuda * 1000}; }}
"""


@pytest.fixture
def driver(tmp_path: Path):
    """A function that makes a directory with a driver for a CUDA major."""

    def make(cuda: int) -> str:
        source = f"int cuDriverGetVersion(int *version) {{ *version = {cuda}020; return 0; }}"
        return str(build(tmp_path / f"driver{cuda}" / "libcuda.so.1", source).parent)

    return make


@pytest.fixture(autouse=True, scope="module")
def nothing_in_the_system():
    """Libraries in system directories cannot be hidden from a child process."""
    code = """\
    for name in loader.TITLES:
        try:
            print(loader.load(name).path)
        except errors.LibraryNotFound:
            pass
    """
    found = run(code)
    if found:
        pytest.skip(f"libraries are in system directories too: {found.split()}")


PRINT = """\
library = loader.load({name!r})
print(library.path, library.version, library.cuda_major, library.origin)
"""
OPENED = """\
print(*{{line.split()[-1] for line in open("/proc/self/maps") if "{part}" in line}})
"""


@pytest.mark.library
def test_l2_wheel_is_found_without_ld_library_path():
    code = PRINT.format(name="cudnn") + PRINT.format(name="cublas")
    cudnn, cublas = (line.split() for line in run(code, keep_path=True).splitlines())
    installed = {d.metadata["Name"]: d.version for d in metadata.distributions()}
    for (path, version, cuda, origin), package in (
        (cudnn, "nvidia-cudnn-cu13"),
        (cublas, "nvidia-cublas"),
    ):
        assert os.path.isabs(path)
        assert "nvidia" in path
        assert origin == "wheel"
        if package in installed:
            assert loader.version_text(int(version)) == ".".join(installed[package].split(".")[:3])
            assert cuda == "13"


@pytest.mark.parametrize("name", ["cudnn", "cublas"])
def test_l2_error_lists_every_path_tried_and_what_to_install(tmp_path, name):
    code = f"""\
    try:
        loader.load({name!r})
    except errors.LibraryNotFound as error:
        text = str(error)
    tried = loader.candidates({name!r})
    assert len(tried) > 5
    assert [path for path in tried if path not in text] == []
    print(text)
    """
    text = run(code, first=[tmp_path], CUDA_PATH=str(tmp_path / "toolkit"), PYCUDNN_BACKEND="")
    assert f"{tmp_path / 'toolkit' / 'lib64' / loader.file_names(name)[0]}: not there" in text
    assert "cuda.pathfinder: not installed" in text
    assert "pip install 'pycudnn[cu1" in text


@linux_only
@pytest.mark.parametrize("order", [(12, 13), (13, 12)])
@pytest.mark.parametrize("supported", [12, 13])
def test_l5_cudnn_that_fits_the_driver(tmp_path, driver, order, supported):
    paths = {cuda: build_cudnn(tmp_path / str(cuda) / "nvidia/cudnn/lib", cuda) for cuda in order}
    first = [tmp_path / str(cuda) for cuda in order]
    code = PRINT.format(name="cudnn") + OPENED.format(part="libcudnn.so")
    found, opened = run(code, first=first, LD_LIBRARY_PATH=driver(supported)).splitlines()
    assert found.split() == [str(paths[supported]), "90702", str(supported), "wheel"]
    assert opened == str(paths[supported])  # the other one would have left its parts behind


@linux_only
@pytest.mark.parametrize("supported", [12, 13])
def test_l5_cublas_that_fits_the_driver(tmp_path, driver, supported):
    paths = {
        12: build_cublas(tmp_path / "nvidia/cublas/lib", 12),
        13: build_cublas(tmp_path / "nvidia/cu13/lib", 13),
    }
    output = run(PRINT.format(name="cublas"), first=[tmp_path], LD_LIBRARY_PATH=driver(supported))
    assert output.split() == [
        str(paths[supported]),
        str(supported * 10000 + 302),
        str(supported),
        "wheel",
    ]


@linux_only
@pytest.mark.parametrize("name", ["cudnn", "cublas"])
def test_l5_only_the_wrong_build_is_one_line_with_both_majors(tmp_path, driver, name):
    if name == "cudnn":
        build_cudnn(tmp_path / "nvidia/cudnn/lib", 13)
    else:
        build_cublas(tmp_path / "nvidia/cu13/lib", 13)
    code = f"""\
    try:
        loader.load({name!r})
    except errors.LibraryNotFound as error:
        print(error)
    """
    lines = run(code, first=[tmp_path], LD_LIBRARY_PATH=driver(12)).splitlines()
    assert len(lines) == 1
    assert "built for CUDA 13, but the driver supports CUDA 12 at most" in lines[0]
    assert "pip install 'pycudnn[cu12]'" in lines[0]


@linux_only
@pytest.mark.library
def test_l5_real_wheel_with_an_older_driver(driver):
    if loader.load("cudnn").cuda_major != 13:
        pytest.skip("the installed cuDNN is not for CUDA 13")
    code = """\
    try:
        loader.load("cudnn")
    except errors.LibraryNotFound as error:
        print(error)
    """
    text = run(code, keep_path=True, LD_LIBRARY_PATH=driver(12))
    assert "built for CUDA 13, but the driver supports CUDA 12 at most" in text


@linux_only
def test_build_of_the_other_librarys_major_is_preferred(tmp_path):
    build_cudnn(tmp_path / "nvidia/cudnn/lib", 12)
    build_cublas(tmp_path / "nvidia/cublas/lib", 12)
    build_cublas(tmp_path / "nvidia/cu13/lib", 13)
    assert run(PRINT.format(name="cublas"), first=[tmp_path]).split()[2] == "13"
    both = "loader.load('cudnn')\n" + PRINT.format(name="cublas")
    assert run(both, first=[tmp_path]).split()[2] == "12"


@linux_only
def test_l4_cublaslt_is_opened_first_and_from_the_same_directory(tmp_path):
    # Another libcublasLt stands where the dynamic linker would look first.
    other = build_cublas(tmp_path / "other", 13).parent
    (other / "libcublas.so.13").unlink()
    cublas = build_cublas(tmp_path / "nvidia/cu13/lib", 13)
    code = """\
    opened = []
    sys.addaudithook(lambda event, data: opened.append(data[0]) if event == "ctypes.dlopen" else 0)
    loader.load("cublas")
    print(*[name for name in opened if name and "cublas" in name and "/" in name], sep="\\n")
    print(*{line.split()[-1] for line in open("/proc/self/maps") if "libcublasLt" in line})
    """
    output = run(code, first=[tmp_path], LD_LIBRARY_PATH=str(other)).splitlines()
    light = cublas.with_name("libcublasLt.so.13")
    lt = run(PRINT.format(name="cublaslt"), first=[tmp_path], LD_LIBRARY_PATH=str(other))
    assert lt.split() == [str(light), "130302", "13", "wheel"]
    assert output == [str(light), str(cublas), str(light)]


@linux_only
@pytest.mark.library
def test_l4_on_the_real_wheel():
    code = """\
    opened = []
    sys.addaudithook(lambda event, data: opened.append(data[0]) if event == "ctypes.dlopen" else 0)
    path = loader.load("cublas").path
    print(*[name for name in opened if name and "/" in name and "cublas" in name], sep="\\n")
    """
    light, cublas = run(code, keep_path=True).splitlines()
    assert os.path.basename(light).startswith("libcublasLt.so")
    assert os.path.basename(cublas).startswith("libcublas.so")
    assert os.path.dirname(light) == os.path.dirname(cublas)


@linux_only
def test_cublas_without_its_cublaslt_is_not_taken(tmp_path):
    lonely = build_cublas(tmp_path / "a/nvidia/cu13/lib", 13, light=False)
    whole = build_cublas(tmp_path / "b/nvidia/cu13/lib", 13)
    output = run(PRINT.format(name="cublas"), first=[tmp_path / "a", tmp_path / "b"])
    assert output.split()[0] == str(whole)
    code = "try: loader.load('cublas')\nexcept errors.LibraryNotFound as error: print(error)"
    text = run(code, first=[tmp_path / "a"])
    assert f"{lonely}: {lonely.with_name('libcublasLt.so.13')}" in text


@linux_only
@pytest.mark.library
def test_cudnn_without_its_sublibraries_is_an_error_and_no_abort(tmp_path):
    directory = tmp_path / "nvidia/cudnn/lib"
    directory.mkdir(parents=True)
    shutil.copy(loader.load("cudnn").path, directory)
    code = "try: loader.load('cudnn')\nexcept errors.LibraryNotFound as error: print(error)"
    text = run(code, first=[tmp_path])
    assert f"{directory / 'libcudnn.so.9'}: {directory / 'libcudnn_graph.so.9'} is missing" in text


@linux_only
def test_e4_library_that_lacks_symbols_still_loads(tmp_path):
    build_cudnn(tmp_path / "nvidia/cudnn/lib", 13)
    code = """\
    library = libraries.get_library("cudnn", "cuda")
    print(library.version, library.function("cudnnGetVersion")())
    try:
        library.address("cudnnGetExecutionPlanWorkspaceSize")
    except errors.FunctionNotFound as error:
        print(error)
    try:
        library.address("cudnnSetRNNDescriptor_v6")
    except errors.FunctionNotFound as error:
        print(error)
    from pycudnn.coverage import coverage
    print(*[(row.header, row.exported and row.exported[0]) for row in coverage()])
    """
    numbers, lacking, removed, exported = run(code, first=[tmp_path]).splitlines()
    assert exported == (
        "('cudnn_graph', 'cudnnGetVersion') ('cudnn_ops', ()) ('cudnn_cnn', ()) ('cudnn_adv', ()) "
        "('cudnn_subquadratic_ops', ()) ('cudnn_gnn_ops', ()) "
        "('cublas_api', None) ('cublasLt', None)"
    )
    assert numbers == "90702 90702"
    assert "cudnnGetExecutionPlanWorkspaceSize needs cuDNN 9.23.0 or newer" in lacking
    assert removed == ("cudnnSetRNNDescriptor_v6 is not in cuDNN 9.x; use cudnnSetRNNDescriptor_v8")


@linux_only
def test_build_that_the_process_has_loaded_already_is_kept(tmp_path):
    used = build_cudnn(tmp_path / "elsewhere", 13)
    build_cudnn(tmp_path / "nvidia/cudnn/lib", 13)
    code = f"import ctypes\nctypes.CDLL({str(used)!r})\n" + PRINT.format(name="cudnn")
    assert run(code, first=[tmp_path]).split()[::3] == [str(used), "system"]


@linux_only
def test_system_install_by_ld_library_path_and_by_toolkit(tmp_path):
    directory = build_cudnn(tmp_path / "toolkit/lib64", 13).parent
    by_path = run(PRINT.format(name="cudnn"), LD_LIBRARY_PATH=str(directory))
    by_root = run(PRINT.format(name="cudnn"), CUDNN_PATH=str(directory.parent))
    assert by_path == by_root
    assert by_path.split() == [str(directory / "libcudnn.so.9"), "90702", "13", "system"]


@linux_only
def test_conda_install(tmp_path):
    build_cudnn(tmp_path / "lib", 12)
    output = run(PRINT.format(name="cudnn"), CONDA_PREFIX=str(tmp_path))
    assert output.split()[1:] == ["90702", "12", "conda"]


@linux_only
def test_threads_get_one_library(tmp_path):
    build_cublas(tmp_path / "nvidia/cu13/lib", 13)
    code = """\
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(8) as pool:
        print(len({id(library) for library in pool.map(loader.load, ["cublas"] * 32)}))
    """
    assert run(code, first=[tmp_path]).strip() == "1"


def test_importing_pycudnn_opens_no_library_and_no_cuda_package():
    code = """\
    print([name for name in sys.modules if name.split(".")[0] == "cuda"])
    print([line for line in open("/proc/self/maps") if "libcud" in line or "libcublas" in line])
    """
    assert run(code, keep_path=True).split() == ["[]", "[]"]


def test_name_that_is_no_library():
    with pytest.raises(ValueError, match="name must be one of cudnn, cublas, cublaslt, got"):
        loader.load("cufft")


def loaded(name: str, cuda: int, origin: str) -> loader.LoadedLibrary:
    return loader.LoadedLibrary(name, f"/{origin}/{name}", None, 1, cuda, origin)


def test_mixes():
    cudnn = loaded("cudnn", 13, "wheel")
    assert loader.mixes([cudnn, loaded("cublas", 13, "wheel")]) == []
    assert loader.mixes([cudnn]) == []
    assert loader.mixes([cudnn, loaded("cublas", 12, "system")]) == [
        "cuDNN and cuBLAS are built for different CUDA majors: 13 and 12",
        "cuDNN and cuBLAS come from different installations: wheel (/wheel/cudnn) and "
        "system (/system/cublas)",
    ]


@linux_only
def test_mix_of_wheel_and_system_is_reported(tmp_path):
    cudnn = build_cudnn(tmp_path / "site/nvidia/cudnn/lib", 13)
    cublas = build_cublas(tmp_path / "system", 12)
    code = """\
    for line in show_config(as_dict=True)["mixes"]:
        print(line)
    """
    majors, origins = run(
        code, first=[tmp_path / "site"], LD_LIBRARY_PATH=str(cublas.parent)
    ).splitlines()
    assert majors == "cuDNN and cuBLAS are built for different CUDA majors: 13 and 12"
    assert str(cudnn) in origins
    assert str(cublas) in origins


def test_l3_windows_places(tmp_path, monkeypatch):
    installer = tmp_path / "NVIDIA" / "CUDNN" / "v9.28" / "bin" / "13.2"
    installer.mkdir(parents=True)
    monkeypatch.setenv("ProgramFiles", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    cudnn = loader.candidates("cudnn", "win32")
    assert cudnn[0] == str(tmp_path / "site/nvidia/cudnn/bin/cudnn64_9.dll")
    assert str(installer / "cudnn64_9.dll") in cudnn
    assert str(installer / "x64" / "cudnn64_9.dll") in cudnn
    cublas = loader.candidates("cublas", "win32")
    assert cublas[0] == str(tmp_path / "site/nvidia/cu13/bin/x86_64/cublas64_13.dll")
    assert str(tmp_path / "site/nvidia/cublas/bin/cublas64_12.dll") in cublas
    assert loader.sibling(cublas[0], "Lt").endswith("x86_64/cublasLt64_13.dll")
    assert loader.sibling(cudnn[0], "_ops").endswith("bin/cudnn_ops64_9.dll")


def test_l3_windows_directory_is_added_and_its_cookie_kept(monkeypatch):
    cookies = []

    def add_dll_directory(directory: str) -> object:
        cookies.append((directory, object()))
        return cookies[-1][1]

    monkeypatch.setattr(os, "add_dll_directory", add_dll_directory, raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(loader, "_dll_directories", [])
    with pytest.raises(OSError, match="cublasLt64_13"):
        loader._open("cublas", "/no/such/place/cublas64_13.dll")
    assert [directory for directory, _ in cookies] == ["/no/such/place"]
    assert loader._dll_directories == [cookies[0][1]]


@pytest.mark.parametrize(
    ("name", "function", "text"),
    [
        ("cudnn", "cudnnRNNForwardTraining", "is not in cuDNN 9.x; use cudnnRNNForward"),
        ("cudnn", "cudnnConvolutionFoward", "did you mean cudnnConvolutionForward?"),
        ("cublas", "cublasSgemm", "use cublasSgemm_v2"),
        ("cublas", "cublasSgemm_64", "use cublasSgemm_v2_64"),
    ],
)
def test_e4_function_not_found_names_what_to_call(name, function, text):
    error = loader.function_not_found(name, function)
    assert str(error).startswith(f"{function} is not in ")
    assert text in str(error)


def test_version_text():
    assert loader.version_text(92801) == "9.28.1"
    assert loader.version_text(131000) == "13.10.0"
