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


def test_an_exit_with_the_log_on_is_clean():
    code = """if True:
        from pycudnn import cudnn
        cudnn.enable_logging()
        kept = [cudnn.TensorDescriptor((1, 2, 3, 4), library="cuda") for _ in range(9)]
    """
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
