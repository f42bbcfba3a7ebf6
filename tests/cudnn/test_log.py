"""cuDNN's messages as records of Python's logging."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from pycudnn import cudnn, errors

pytestmark = pytest.mark.library


@pytest.fixture
def log(caplog):
    """Records of the logger, which is switched off again afterwards."""
    caplog.set_level(logging.DEBUG, "pycudnn.cudnn")
    yield caplog
    cudnn.disable_logging()


def fail():
    with pytest.raises(errors.CudnnBadParam):  # more bytes than the library counts with
        cudnn.FilterDescriptor((2**31 - 1, 3, 2, 2), "int8", library="cuda")


def succeed():
    cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH, library="cuda").close()


def test_off_by_default(log):
    succeed()
    assert not log.records


def test_every_call_is_told(log):
    cudnn.enable_logging()
    succeed()
    functions = [record.cudnn_function for record in log.records]
    for name in ("Create", "Set", "Destroy"):
        assert f"cudnn{name}ActivationDescriptor" in functions
    text = next(r for r in log.records if r.cudnn_function == "cudnnSetActivationDescriptor")
    assert "CUDNN_ACTIVATION_TANH" in text.getMessage()
    assert "\0" not in text.getMessage()
    assert {record.levelno for record in log.records} == {logging.INFO}


def test_levels(log):
    cudnn.enable_logging("ERROR")
    log.clear()
    succeed()
    assert not log.records
    cudnn.enable_logging("INFO")
    log.clear()
    succeed()
    assert log.records


def test_disabled_again(log, capfd):
    cudnn.enable_logging()
    cudnn.disable_logging()
    cudnn.disable_logging()
    log.clear()
    succeed()
    assert not log.records
    assert capfd.readouterr() == ("", "")


def test_unknown_level():
    with pytest.raises(ValueError, match="level must be one of ERROR, WARNING, INFO, got 'LOUD'"):
        cudnn.enable_logging("LOUD")


@pytest.mark.parametrize("level", [[], None, 5])
def test_a_level_that_is_no_text(level):
    with pytest.raises(TypeError, match="level must be one of ERROR, WARNING, INFO, got"):
        cudnn.enable_logging(level)


# What a handler may do; a process of its own, since it may hang.
HANDLER = """if True:
    import logging
    from pycudnn import cudnn

    told = []

    class Handler(logging.Handler):
        def emit(self, record):
            told.append(record.cudnn_function)
            {work}

    logger = logging.getLogger("pycudnn.cudnn")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(Handler())
    cudnn.enable_logging()
    cudnn.ActivationDescriptor(cudnn.ActivationMode.TANH, library="cuda").close()
    print(*told)
"""
CALLS = [f"cudnn{name}ActivationDescriptor" for name in ("Create", "Set", "Destroy")]


@pytest.mark.parametrize(
    ("work", "told"),
    [
        ("cudnn.disable_logging()", CALLS[:1]),
        ("cudnn.enable_logging()", CALLS),
        ("cudnn.disable_logging(); cudnn.enable_logging('INFO')", CALLS),
        ("cudnn.TensorDescriptor((1, 2, 3, 4), library='cuda').close()", CALLS),
    ],
)
def test_a_handler_may_use_cudnn(work, told):
    """Its own calls are not told of, and switching the log in it does not hang."""
    code = HANDLER.format(work=work)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, told, "")


def test_messages_go_on_after_a_handler_that_fails(log, monkeypatch):
    """Its exception goes to sys.unraisablehook; later messages come as ever."""
    seen = []

    class Handler(logging.Handler):
        def handle(self, record):
            raise RuntimeError("a handler's own")

    logger, handler = logging.getLogger("pycudnn.cudnn"), Handler()
    cudnn.enable_logging()
    logger.addHandler(handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "unraisablehook", lambda one: seen.append(str(one.exc_value)))
            succeed()
    finally:
        logger.removeHandler(handler)
    assert seen == ["a handler's own"] * len(CALLS)
    log.clear()
    succeed()
    assert log.records


def test_an_exit_with_the_log_on_is_clean():
    code = """if True:
        from pycudnn import cudnn
        cudnn.enable_logging()
        kept = [cudnn.TensorDescriptor((1, 2, 3, 4), library="cuda") for _ in range(9)]
    """
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
