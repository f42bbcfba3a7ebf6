"""pycudnn.config: three settings, for the process, a block of code, or from the environment."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pycudnn
from pycudnn import CudaContext, config, cublas, cudnn, from_numpy
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
        ({"PYCUDNN_WORKSPACE_LIMIT": str(2**63)}, "workspace_limit must be in"),
    ],
)
def test_bad_environment(environment, text):
    with pytest.raises(ValueError, match=text):
        Config(environment).as_dict()


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


SEQUENCES = {"qo_max_seq_length": 3, "kv_max_seq_length": 3}
DESCRIPTORS = {
    "convolution": lambda kind, **more: cudnn.ConvolutionDescriptor(compute_type=kind, **more),
    "RNN": lambda kind, **more: cudnn.RNNDescriptor(4, 4, dtype=kind, **more),
    "attention": lambda kind, **more: cudnn.AttentionDescriptor(
        2, 4, 4, 4, dtype=kind, **SEQUENCES, **more
    ),
}


def math_type(descriptor):
    """As the library has it."""
    if isinstance(descriptor, cudnn.AttentionDescriptor):
        return descriptor.read().math_type
    return descriptor.math_type


@pytest.mark.parametrize("make", DESCRIPTORS.values(), ids=list(DESCRIPTORS))
def test_tf32_reaches_descriptors(library, make):
    assert math_type(make("float32", library=library)) is MathType.FMA_MATH
    assert math_type(make("float16", library=library)) is MathType.DEFAULT_MATH
    with config.override(tf32=True):
        assert math_type(make("float32", library=library)) is MathType.DEFAULT_MATH
        given = make("float32", math_type=MathType.FMA_MATH, library=library)
        assert math_type(given) is MathType.FMA_MATH


@pytest.mark.parametrize("tf32", [False, True])
def test_c9_one_switch_for_convolutions_and_products(backend, tf32):
    """1 + 2**-11 times an identity: exact in plain float32, off by at most 2**-10 in TF32."""
    value = np.float32(1 + 2**-11)
    with config.override(tf32=tf32), CudaContext(backend) as context:
        on_it = {"device": context.device, "stream": context.stream}
        library = context.cudnn.library
        shape = (1, 64, 8, 8)
        x_desc = cudnn.TensorDescriptor(shape, library=library)
        w_desc = cudnn.FilterDescriptor((64, 64, 1, 1), library=library)
        conv = cudnn.ConvolutionDescriptor(library=library)
        algorithm = cudnn.ConvolutionFwdAlgo.IMPLICIT_PRECOMP_GEMM
        needed = cudnn.get_convolution_forward_workspace_size(
            context.cudnn, x_desc, w_desc, conv, x_desc, algorithm
        )
        x = from_numpy(np.full(shape, value), **on_it)
        w = from_numpy(np.eye(64, dtype=np.float32).reshape(64, 64, 1, 1), **on_it)
        y = from_numpy(np.full(shape, np.nan, np.float32), **on_it)
        cudnn.convolution_forward(
            context.cudnn, x_desc, x, w_desc, w, conv, algorithm, context.workspace(needed),
            x_desc, y,
        )  # fmt: skip
        a = from_numpy(np.full((256, 256), value), **on_it)
        eye = from_numpy(np.eye(256, dtype=np.float32), **on_it)
        c = from_numpy(np.full((256, 256), np.nan, np.float32), **on_it)
        cublas.sgemm(context.cublas, 0, 0, 256, 256, 256, 1.0, a, 256, eye, 256, 0.0, c, 256)
        for result in (y, c):
            error = np.abs(result.numpy(context.stream) - value).max()
            assert error <= (2**-10 if tf32 else 0)


def test_show_config_prints_the_settings(capsys):
    with config.override(tf32=True, workspace_limit=77):
        assert pycudnn.show_config(as_dict=True)["settings"] == {
            "tf32": True, "deterministic": False, "workspace_limit": 77,
        }  # fmt: skip
        pycudnn.show_config()
    printed = "settings         tf32 True, deterministic False, workspace_limit 77\n"
    assert printed in capsys.readouterr().out
