"""One search per convolution, as a sortable list that prints as a table and can be saved."""

from __future__ import annotations

import json

import numpy as np
import pytest
from full_device import full_device

from pycudnn import CudaContext, abi, config, cudnn, get_library, reference, zeros
from pycudnn.cudnn import AlgorithmCache
from pycudnn.errors import CudnnExecutionFailed, CudnnInternalError, NoAlgorithm
from pycudnn.reference import runtime

DESCRIPTORS = {
    "forward": lambda x, w, conv, y: (x, w, conv, y),
    "backward_data": lambda x, w, conv, y: (w, y, conv, x),
    "backward_filter": lambda x, w, conv, y: (x, y, conv, w),
}


def problem(context, direction="forward", n=4, dtype="float32", groups=1, **settings):
    """The four descriptors of a direction, in C order."""
    library = context.cudnn.library
    x = cudnn.TensorDescriptor((n, 4, 9, 8), dtype, library=library)
    w = cudnn.FilterDescriptor((6, 4 // groups, 3, 3), dtype, library=library)
    conv = cudnn.ConvolutionDescriptor(groups=groups, library=library, **settings)
    shape = cudnn.get_convolution_forward_output_dim(conv, x, w)
    y = cudnn.TensorDescriptor(shape, dtype, library=library)
    return DESCRIPTORS[direction](x, w, conv, y)


@pytest.mark.parametrize("direction", DESCRIPTORS)
@pytest.mark.parametrize("search", ["find", "heuristic"])
def test_records_are_a_sortable_list(context, direction, search):
    records = cudnn.find_algorithm(
        direction, context.cudnn, *problem(context, direction), search=search, cache=None
    )
    usable = [record for record in records if record.status == cudnn.Status.SUCCESS]
    assert usable
    assert records.best == usable[0]
    if search == "find":
        times = [record.time for record in usable]
        assert times == sorted(times)
        assert all(time >= 0 for time in times)
    records.sort(key=lambda record: record.memory)
    sizes = [record.memory for record in records]
    assert sizes == sorted(sizes)


REMEDY = (
    "bytes are free: if that is too little, call find_convolution_{0}_algorithm_ex with a "
    "workspace, or get_convolution_{0}_algorithm_v7, which takes none"
)


@pytest.mark.parametrize("direction", DESCRIPTORS)
def test_c6_h3_a_search_without_memory_proposes_another(direction, monkeypatch):
    noun = direction.title().replace("_", "")
    name = f"cudnnFindConvolution{noun}Algorithm"
    library = get_library("cudnn", "reference")
    prototype = abi.prototype("cudnn", name)

    def fail(*arguments: int) -> None:
        status = cudnn.Status.INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
        raise runtime.Status(status, "no memory")

    failing = abi.callback_type(prototype)(runtime._callback(prototype, fail))
    failing.argtypes = library.function(name).argtypes
    monkeypatch.setitem(library._functions, name, failing)
    with CudaContext("reference") as context:
        descriptors = problem(context, direction)
        before = reference.live_objects()
        for _ in range(1000):  # case H3: they leave nothing
            with pytest.raises(CudnnInternalError, match=REMEDY.format(direction)):
                cudnn.find_algorithm(direction, context.cudnn, *descriptors, cache=None)
        assert reference.live_objects() == before


@pytest.mark.gpu
@pytest.mark.whole_gpu
def test_c6_searches_with_little_memory():
    """With 64 MiB free: the search fails and says what to call, which works in 16 MiB."""
    with CudaContext("cuda") as context:
        x_desc = cudnn.TensorDescriptor((2, 16, 64, 64))
        w_desc = cudnn.FilterDescriptor((16, 16, 3, 3))
        conv = cudnn.ConvolutionDescriptor(padding=1)
        large = cudnn.TensorDescriptor((64, 16, 256, 256))
        memory = {"device": context.device, "stream": context.stream}
        x, y = zeros(x_desc.shape, **memory), zeros(x_desc.shape, **memory)
        w, space = zeros(w_desc.shape, **memory), zeros(16 << 20, "uint8", **memory)
        arguments = (context.cudnn, x_desc, x, w_desc, w, conv, x_desc, y, space)
        cudnn.find_convolution_forward_algorithm_ex(*arguments)  # loads what it needs
        context.synchronize()
        with full_device(64 << 20):
            search = (context.cudnn, large, w_desc, conv, large)
            with pytest.raises(
                (CudnnInternalError, CudnnExecutionFailed), match=REMEDY.format("forward")
            ):
                cudnn.find_convolution_forward_algorithm(*search)
            records = cudnn.find_convolution_forward_algorithm_ex(*arguments)
        usable = [record for record in records if record.status == cudnn.Status.SUCCESS]
        assert usable
        assert all(record.memory <= 16 << 20 for record in usable)


def test_p3_a_time_that_was_not_taken_is_shown_as_such(context):
    records = cudnn.find_algorithm(
        "forward", context.cudnn, *problem(context), search="heuristic", cache=None
    )
    head, *lines = str(records).splitlines()
    assert head.split() == "algorithm time ms workspace math type determinism status".split()
    assert len(lines) == len(records)
    for record, line in zip(records, lines, strict=True):
        assert line.split()[:2] == [record.algorithm.name, "n/a"]
        assert f"{record.memory:,}" in line


def test_c12_batches_that_come_back_are_not_searched_again(context):
    cache = AlgorithmCache()
    for n in (256, 96, 256, 96):
        cudnn.find_algorithm(
            "forward", context.cudnn, *problem(context, n=n), search="heuristic", cache=cache
        )
    assert cache.searches == len(cache) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"n": 5}, {"dtype": "float16"}, {"padding": 1}, {"stride": 2}, {"dilation": 2},
        {"groups": 2}, {"math_type": cudnn.MathType.DEFAULT_MATH},
    ],
    ids=str,
)  # fmt: skip
def test_c12_the_key_has_the_convolution(context, other):
    cache = AlgorithmCache()
    for settings in ({}, other, {}, other):
        cudnn.find_algorithm(
            "forward", context.cudnn, *problem(context, **settings), search="heuristic",
            cache=cache,
        )  # fmt: skip
    assert cache.searches == 2


def test_c12_the_key_has_limit_determinism_and_direction(context):
    cache = AlgorithmCache()
    for options in ({}, {"workspace_limit": 0}, {"deterministic": True}, {}):
        for direction in DESCRIPTORS:
            cudnn.find_algorithm(
                direction, context.cudnn, *problem(context, direction), search="heuristic",
                cache=cache, **options,
            )  # fmt: skip
    assert cache.searches == 9


def test_best_keeps_to_the_limits(context):
    with config.override(workspace_limit=0, deterministic=True):
        records = cudnn.find_algorithm("forward", context.cudnn, *problem(context), cache=None)
    assert (records.workspace_limit, records.deterministic) == (0, True)
    assert records.best.memory == 0
    assert records.best.determinism == cudnn.Determinism.DETERMINISTIC
    del records[:]
    with pytest.raises(NoAlgorithm, match="workspace_limit=0, deterministic=True"):
        records.best  # noqa: B018


def test_a_cache_is_saved_and_loaded(context, tmp_path):
    saved, loaded = AlgorithmCache(), AlgorithmCache()
    descriptors = problem(context)
    records = cudnn.find_algorithm("forward", context.cudnn, *descriptors, cache=saved)
    saved.save(tmp_path / "algorithms.json")
    loaded.load(tmp_path / "algorithms.json")
    assert cudnn.find_algorithm("forward", context.cudnn, *descriptors, cache=loaded) == records
    assert (loaded.searches, len(loaded)) == (0, 1)
    assert type(records[0].algorithm) is cudnn.ConvolutionFwdAlgo


def damaged(**changes):
    """A saved cache of one record, some of whose fields are changed."""
    record = {
        "algorithm": 0, "status": 0, "time": 0.5, "memory": 0, "determinism": 1, "math_type": 0,
    }  # fmt: skip
    assert changes.keys() <= record.keys()
    return json.dumps([{"key": ["forward"], "records": [list({**record, **changes}.values())]}])


def test_a_record_that_is_not_damaged_loads(tmp_path):
    path = tmp_path / "algorithms.json"
    path.write_text(damaged())
    cache = AlgorithmCache()
    cache.load(path)
    assert len(cache) == 1


@pytest.mark.parametrize(
    "text",
    [
        "", "[1]", "{}", '""', '{"a": 1}', "[" * 200_000, json.dumps([{"key": ["up"]}]),
        damaged(algorithm=8), damaged(algorithm="1"), damaged(status=True), damaged(time=-1),
        damaged(time=float("nan")), damaged(memory=-5), damaged(memory=10**300),
        damaged(memory=float("inf")), damaged(memory=1.5), damaged(math_type=1.0),
    ],
    ids=lambda text: text[-40:],
)  # fmt: skip
def test_a_file_that_is_no_cache(tmp_path, text):
    path = tmp_path / "algorithms.json"
    path.write_text(text)
    cache = AlgorithmCache()
    with pytest.raises(ValueError, match=r"algorithms.json is no saved algorithm cache"):
        cache.load(path)
    assert len(cache) == 0


@pytest.mark.parametrize("direction", DESCRIPTORS)
@pytest.mark.parametrize("search", ["find", "heuristic"])
def test_a_wrong_descriptor_is_named_as_in_python(context, direction, search):
    """By the argument of find_algorithm, and by what it is in this direction."""
    names = {
        "forward": ("x_desc", "w_desc", "conv", "y_desc"),
        "backward_data": ("w_desc", "dy_desc", "conv", "dx_desc"),
        "backward_filter": ("x_desc", "dy_desc", "conv", "dw_desc"),
    }[direction]
    own = ("first_desc", "second_desc", "conv", "last_desc")
    good = problem(context, direction)
    tensor, filters = problem(context)[:2]
    for i, name in enumerate(names):
        kind = type(good[i]).__name__
        wrong = [*good]
        wrong[i] = filters if kind == "TensorDescriptor" else tensor
        known_as = name if name == "conv" else rf"{own[i]} \({name}\)"
        with pytest.raises(TypeError, match=f"^{known_as} must be a {kind}, got "):
            cudnn.find_algorithm(direction, context.cudnn, *wrong, search=search)
        verb, version = ("find", "") if search == "find" else ("get", "_v7")
        function = getattr(cudnn, f"{verb}_convolution_{direction}_algorithm{version}")
        with pytest.raises(TypeError, match=f"^{name} must be a {kind}, got "):
            function(context.cudnn, *wrong)


def test_bad_arguments(context):
    descriptors = problem(context)
    with pytest.raises(ValueError, match="direction must be one of .*got 'sideways'"):
        cudnn.find_algorithm("sideways", context.cudnn, *descriptors)
    with pytest.raises(ValueError, match="search must be one of .*got 'guess'"):
        cudnn.find_algorithm("forward", context.cudnn, *descriptors, search="guess")
    with pytest.raises(TypeError, match="handle must be a Handle, got 3"):
        cudnn.find_algorithm("forward", 3, *descriptors)
    with pytest.raises(TypeError, match="cache must be a AlgorithmCache, got {}"):
        cudnn.find_algorithm("forward", context.cudnn, *descriptors, cache={})
    x, w, conv, y = descriptors
    with pytest.raises(TypeError, match=r"first_desc \(x_desc\) must be a TensorDescriptor"):
        cudnn.find_algorithm("forward", context.cudnn, w, x, conv, y)
    with pytest.raises(TypeError, match=r"last_desc \(y_desc\) must be a TensorDescriptor, got 5"):
        cudnn.find_algorithm("forward", context.cudnn, x, w, conv, 5)
    with pytest.raises(ValueError, match=r"direction must be one of .*got array"):
        cudnn.find_algorithm(np.zeros(4), context.cudnn, *descriptors)
    with pytest.raises(TypeError, match="each of records must be a AlgorithmPerformance, got 7"):
        cudnn.select_algorithm([7])
