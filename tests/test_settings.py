"""pycudnn.config: three settings, for the process, a block of code, or from the environment."""

from __future__ import annotations

import threading

import pytest

import pycudnn
from pycudnn import config, cudnn
from pycudnn.abi.cudnn_enums import MathType
from pycudnn.settings import Config

DEFAULTS = {"tf32": False, "deterministic": False, "workspace_limit": None}


def test_defaults():
    assert Config({}).as_dict() == DEFAULTS
    assert pycudnn.config is config


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ({"PYCUDNN_TF32": "1"}, {"tf32": True}),
        ({"PYCUDNN_TF32": "0", "PYCUDNN_DETERMINISTIC": "1"}, {"deterministic": True}),
        ({"PYCUDNN_WORKSPACE_LIMIT": "1048576"}, {"workspace_limit": 1 << 20}),
        ({"PYCUDNN_WORKSPACE_LIMIT": "none"}, {}),
    ],
)
def test_environment(environment, settings):
    assert Config(environment).as_dict() == {**DEFAULTS, **settings}


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"PYCUDNN_TF32": "yes"}, "PYCUDNN_TF32 must be 0 or 1, got 'yes'"),
        ({"PYCUDNN_DETERMINISTIC": "2"}, "PYCUDNN_DETERMINISTIC must be 0 or 1, got '2'"),
        ({"PYCUDNN_WORKSPACE_LIMIT": "-1"}, "must be bytes or none, got '-1'"),
    ],
)
def test_bad_environment(environment, text):
    with pytest.raises(ValueError, match=text):
        Config(environment)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("tf32", 1, TypeError), ("tf32", "on", TypeError), ("deterministic", None, TypeError),
        ("workspace_limit", -1, ValueError), ("workspace_limit", 1.5, TypeError),
        ("workspace_limit", True, TypeError),
    ],
)  # fmt: skip
def test_bad_values(name, value, error):
    mine = Config({})
    with pytest.raises(error, match=f"{name} must"):
        setattr(mine, name, value)
    with pytest.raises(error, match=f"{name} must"), mine.override(**{name: value}):
        pass
    assert mine.as_dict() == DEFAULTS


def test_unknown_settings():
    mine = Config({})
    with pytest.raises(AttributeError, match="no setting 'tf23'"):
        mine.tf23 = True
    with pytest.raises(TypeError, match="no setting 'tf23'"), mine.override(tf23=True):
        pass


def test_override_ends_with_its_block_and_nests():
    mine = Config({})
    with mine.override(tf32=True):
        with mine.override(workspace_limit=5, deterministic=True):
            assert mine.as_dict() == {"tf32": True, "deterministic": True, "workspace_limit": 5}
        assert mine.as_dict() == {**DEFAULTS, "tf32": True}
    with pytest.raises(KeyError), mine.override(tf32=True):
        raise KeyError
    assert mine.as_dict() == DEFAULTS
    assert repr(mine) == "Config(tf32=False, deterministic=False, workspace_limit=None)"


def test_override_is_for_one_thread():
    mine = Config({})
    seen = []
    with mine.override(tf32=True):
        thread = threading.Thread(target=lambda: seen.append(mine.tf32))
        thread.start()
        thread.join()
    assert seen == [False]


def test_tf32_reaches_descriptors(library):
    assert cudnn.ConvolutionDescriptor(library=library).math_type is MathType.FMA_MATH
    with config.override(tf32=True):
        assert cudnn.ConvolutionDescriptor(library=library).math_type is MathType.DEFAULT_MATH
