"""The handle, questions to the library, and its log."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest

from pycudnn import Device, cublas, cublaslt, errors, get_library
from pycudnn.cublaslt import LibraryPropertyType, Status
from pycudnn.errors import NotSupported


def test_handle(handle, backend):
    assert handle.device is Device(backend)
    assert handle.stream is handle.device.default_stream
    assert handle.library is get_library("cublaslt", backend)
    assert repr(handle) == f"<cublaslt.Handle of {handle.library!r} on {backend}:0>"


def test_stream(handle):
    with handle.device.create_stream() as stream:
        handle.stream = stream
        assert handle.stream is stream
        for wrong in (0, None, "x"):
            with pytest.raises(ValueError, match="^stream must be a Stream of"):
                handle.stream = wrong
        handle.stream = handle.device.default_stream


def test_stream_in_the_constructor(backend):
    device = Device(backend)
    with device.create_stream() as stream, cublaslt.Handle(device, stream) as handle:
        assert handle.stream is stream
    with pytest.raises(ValueError, match="^stream must be a Stream of"):
        cublaslt.Handle(device, 5)


def test_close(backend):
    handle = cublaslt.Handle(library=backend)
    with handle:
        assert not handle.closed
    handle.close()
    assert repr(handle) == "<closed cublaslt.Handle>"
    with pytest.raises(ValueError, match="this Handle is closed"):
        _ = handle.stream
    with pytest.raises(ValueError, match="this Handle is closed"):
        handle.stream = Device(backend).default_stream


def test_a_forgotten_handle_warns(backend):
    handle = cublaslt.Handle(library=backend)
    with pytest.warns(ResourceWarning, match="unclosed <cublaslt.Handle of"):
        del handle


def test_wrong_devices_and_libraries(backend):
    for wrong in (5, "cuda:0", object()):
        with pytest.raises(TypeError, match="^device must be a Device"):
            cublaslt.Handle(wrong)
    with pytest.raises(ValueError, match="^library must be a cublaslt library, got <cublas "):
        cublaslt.Handle(library=get_library("cublas", backend))


@pytest.mark.library
def test_the_real_library_without_a_gpu(has_gpu):
    if has_gpu:
        pytest.skip("there is a GPU")
    with pytest.raises(NotSupported, match="no CUDA device"):
        cublaslt.Handle(library="cuda")


# ---- the library ---------------------------------------------------------------------------------


def test_versions(library):
    version = cublaslt.get_version(library)
    assert version == get_library("cublaslt", library).version
    major, minor, patch = (cublaslt.get_property(kind, library) for kind in LibraryPropertyType)
    assert major * 10000 + minor * 100 + patch == version
    assert cublaslt.get_cudart_version(library) // 1000 == major
    for wrong in (3, -1, "MAJOR_VERSION", None):
        with pytest.raises(ValueError, match="^type must be a LibraryPropertyType"):
            cublaslt.get_property(wrong, library)
    with pytest.raises(ValueError, match="library must be a cublaslt library"):
        cublaslt.get_version(get_library("cublas", library))


def test_statuses(library):
    for status in Status:
        assert cublaslt.get_status_name(status, library) == f"CUBLAS_STATUS_{status.name}"
        assert cublaslt.get_status_string(status, library)
    for wrong in (-1, 2**31):
        with pytest.raises(ValueError, match="^status must be in"):
            cublaslt.get_status_name(wrong, library)
    with pytest.raises(TypeError, match="^status must be an int"):
        cublaslt.get_status_string("7", library)


def test_cache_of_heuristics(library):
    before = cublaslt.get_heuristics_cache_capacity(library)
    try:
        cublaslt.set_heuristics_cache_capacity(1000, library)
        assert cublaslt.get_heuristics_cache_capacity(library) == 1024
        cublaslt.set_heuristics_cache_capacity(0, library)
        assert cublaslt.get_heuristics_cache_capacity(library) == 0
    finally:
        cublaslt.set_heuristics_cache_capacity(before, library)
    for wrong in (-1, 2**21, 2**31):  # the last would take all memory there is
        with pytest.raises(ValueError, match="^capacity must be in"):
            cublaslt.set_heuristics_cache_capacity(wrong, library)
    assert cublaslt.get_heuristics_cache_capacity(library) == before


# ---- logs ----------------------------------------------------------------------------------------


@pytest.fixture(params=[cublaslt, cublas])
def face(request, caplog):
    """cublasLt or cuBLAS, whose log is switched off again afterwards."""
    name = request.param.__name__
    caplog.set_level(logging.DEBUG, name)
    yield request.param
    request.param.disable_logging()


@pytest.fixture
def log(face, caplog):
    return caplog


def use(face):
    """A call that the library tells of, although it fails."""
    from pycudnn.abi.types import HANDLES

    if face is cublaslt:
        cublaslt.MatmulDescriptor(library="cuda").close()
        return
    handle = HANDLES["cublasHandle_t"]()
    get_library("cublas", "cuda").function("cublasSetStream_v2")(handle, None)


@pytest.mark.library
def test_off_by_default(face, log, capfd):
    use(face)
    assert not log.records
    assert capfd.readouterr() == ("", "")


@pytest.mark.library
def test_every_call_is_told(face, log, capfd):
    face.enable_logging()
    use(face)
    assert log.records
    assert {record.name for record in log.records} == {face.__name__}
    called = "cublasLtMatmulDescCreate" if face is cublaslt else "cublasSetStream_v2"
    texts = [
        f"{getattr(r, 'cublaslt_function', '')} {getattr(r, 'cublaslt_kind', '')} {r.getMessage()}"
        for r in log.records
    ]
    told = [text for text in texts if called in text]
    assert told
    if face is cublaslt:
        assert told[0].startswith("cublasLtMatmulDescCreate API matmulDesc=0X")
        assert "computeType=COMPUTE_32F" in told[0]
    assert capfd.readouterr() == ("", "")


@pytest.mark.library
def test_disabled_again(face, log, capfd):
    face.enable_logging()
    face.disable_logging()
    face.disable_logging()
    log.clear()
    use(face)
    assert not log.records
    assert capfd.readouterr() == ("", "")


@pytest.mark.library
def test_into_a_file_as_well(face, log, tmp_path):
    path = tmp_path / "log.txt"
    face.enable_logging(file=path)
    use(face)
    face.disable_logging()
    assert log.records
    called = "cublasLtMatmulDescCreate" if face is cublaslt else "cublasSetStream_v2"
    assert called in path.read_text()


@pytest.mark.library
def test_levels_and_kinds(caplog):
    caplog.set_level(logging.DEBUG, "pycudnn.cublaslt")
    try:
        for options, told in (
            ({"level": "ERROR"}, False), ({"level": "HEURISTICS"}, False), ({"level": "API"}, True),
            ({"kinds": ["HINTS", "ERROR"]}, False), ({"kinds": ["API"]}, True),
            ({"kinds": []}, False),
        ):  # fmt: skip
            cublaslt.enable_logging(**options)
            caplog.clear()
            use(cublaslt)
            assert bool(caplog.records) == told, options
    finally:
        cublaslt.disable_logging()
    for options in ({"level": "LOUD"}, {"kinds": ["API", "LOUD"]}):
        with pytest.raises(ValueError, match="must be one of ERROR, TRACE, HINTS, HEURISTICS, API"):
            cublaslt.enable_logging(**options)
    for level in (5, [], np.zeros(4)):
        with pytest.raises(TypeError, match="level must be one of ERROR"):
            cublaslt.enable_logging(level)
    with pytest.raises(TypeError, match="kinds must be one of ERROR"):
        cublaslt.enable_logging(kinds=[[]])
    with pytest.raises(TypeError, match="kinds must be a list of ERROR"):
        cublaslt.enable_logging(kinds="API")
    with pytest.raises(errors.CublasBadParam, match="cublasLtLoggerOpenFile"):
        cublaslt.enable_logging(file="/no/such/folder/log.txt")
    caplog.clear()
    use(cublaslt)
    assert not caplog.records


@pytest.mark.library
def test_a_file_that_is_no_path(face):
    with pytest.raises(TypeError, match="file must be a path or None, got 5"):
        face.enable_logging(file=5)
    with pytest.raises(ValueError, match="file must be a path without NUL"):
        face.enable_logging(file="a\0b")


@pytest.mark.library
@pytest.mark.parametrize(
    ("work", "is_told"),
    [
        ("face.disable_logging()", False),
        ("face.enable_logging()", True),
        ("call()", True),
    ],
)
@pytest.mark.parametrize("face", ["cublas", "cublaslt"])
def test_a_handler_may_use_the_library(face, work, is_told):
    """Its own calls are not told of, and switching the log in it does not hang."""
    code = f"""if True:
        import logging
        from pycudnn import {face} as face
        from pycudnn.abi.types import HANDLES
        from pycudnn.libraries import get_library

        def call():
            function = get_library("cublas", "cuda").function("cublasSetStream_v2")
            function(HANDLES["cublasHandle_t"](), None)
            if "{face}" == "cublaslt":
                face.MatmulDescriptor(library="cuda").close()

        class Handler(logging.Handler):
            def emit(self, record):
                told.append(record.getMessage())
                {work}

        told = []
        logger = logging.getLogger("pycudnn.{face}")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(Handler())
        face.enable_logging()
        call()
        before = len(told)
        call()
        print(before > 0, len(told) == 2 * before)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"True {is_told}\n", "")


@pytest.mark.library
@pytest.mark.parametrize("face", ["cublas", "cublaslt"])
def test_an_exit_with_the_log_on_is_clean(face):
    code = f"""if True:
        from pycudnn import cublaslt, {face}
        {face}.enable_logging()
        kept = [cublaslt.MatrixLayout("float32", 2, 3, library="cuda") for _ in range(9)]
    """
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.library
def test_forbidden_for_good():
    code = """if True:
        import logging
        from pycudnn import cublaslt
        logging.basicConfig(level=logging.DEBUG)
        cublaslt.forbid_logging()
        cublaslt.enable_logging()
        cublaslt.MatrixLayout("float32", 2, 3, library="cuda").close()
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
