"""The examples of the graph API: right results, tables and charts, and short programs."""

from __future__ import annotations

import inspect

import graph_conv_bias_relu
import graph_engines
import graph_knobs
import graph_matmul_bias_gelu
import graph_tools
import numpy as np
import pytest
import results

from pycudnn.device import default_backend

SMALL = ["--input", "2", "16", "9", "8", "--filters", "8"]
EXAMPLES = {
    graph_conv_bias_relu: SMALL,
    graph_matmul_bias_gelu: ["--m", "32", "--n", "64", "--k", "48"],
    graph_engines: SMALL,
    graph_knobs: [*SMALL, "--values", "3"],
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_each_example_computes_and_shows(example, backend, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    chart = tmp_path / "chart.png"
    given = ["--backend", backend, "--plot", str(chart), "--output", str(tmp_path)]
    example.main([*given, *EXAMPLES[example]])
    output = capsys.readouterr().out
    (path,) = tmp_path.glob("graph-*.json")
    rows = results.load(path).rows
    ran = [row for row in rows if "time_us" in row]
    assert ran
    for row in ran:
        assert row["max_error"] < 2e-3
        assert row["time_us"] > 0
        assert row["workspace_bytes"] >= 0
    for row in rows:
        assert "time_us" in row or "not_supported" in row["status"]
    assert "max_error" in output
    assert chart.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_each_example_says_what_it_does(example, capsys):
    with pytest.raises(SystemExit) as stopped:
        example.main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert "--backend" in text
    assert example.__doc__.splitlines()[0] in text.replace("\n", " ")


def test_a_knob_that_is_not_there(backend, capsys):
    with pytest.raises(SystemExit) as stopped:
        graph_knobs.main(["--backend", backend, *SMALL, "--knob", "NO_KNOB"])
    assert stopped.value.code == 2
    assert "has no knob NO_KNOB" in capsys.readouterr().err


BAD_OPTIONS = [
    (graph_engines, ["--input", "0", "1", "1", "1"], "--input: must be at least 1, got 0"),
    (graph_conv_bias_relu, ["--filters", "0"], "--filters: must be at least 1, got 0"),
    (graph_conv_bias_relu, ["--seed", "-1"], "--seed: must be at least 0, got -1"),
    (graph_conv_bias_relu, ["--input", *4 * ["1000000"]], "spans 1"),
    (graph_matmul_bias_gelu, ["--m", "0"], "--m: must be at least 1, got 0"),
    (graph_matmul_bias_gelu, ["--k", str(2**40)], f"in [1, 2147483647], got {2**40}"),
    (graph_knobs, ["--values", "0"], "--values: must be at least 1, got 0"),
    (graph_knobs, ["--values", "-1"], "--values: must be at least 1, got -1"),
    (graph_knobs, ["--engine", "-1"], "--engine: must be at least 0, got -1"),
    (graph_knobs, [*SMALL, "--engine", "9999"], "--engine 9999: there are 0, 1"),
    (graph_engines, ["--plot", "x.xyz"], "--plot x.xyz: must be a .png file"),
    (graph_engines, ["--plot", "missing/x.png"], "--plot missing/x.png: there is no folder"),
    (graph_engines, ["--output", "file/x"], "--output file/x: Not a directory"),
]


@pytest.mark.parametrize(("example", "options", "text"), BAD_OPTIONS)
def test_bad_options_are_one_line(example, options, text, backend, tmp_path, capsys, monkeypatch):
    """The last line says it, and nothing was computed or written."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as stopped:
        example.main(["--backend", backend, *options])
    assert stopped.value.code == 2
    *usage, line = capsys.readouterr().err.splitlines()
    assert "error: " in line
    assert text in line
    assert usage[0].startswith("usage: ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_a_backend_that_is_not_there(example, capsys):
    if default_backend() == "cuda":
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit) as stopped:
        example.main(["--backend", "cuda"])
    assert stopped.value.code == 2
    assert "error: --backend cuda: " in capsys.readouterr().err


def test_the_choice_is_the_fastest(backend, tmp_path, capsys):
    graph_knobs.main(["--backend", backend, *SMALL, "--values", "3", "--output", str(tmp_path)])
    (path,) = tmp_path.glob("graph-knobs-*.json")
    timed = [row for row in results.load(path).rows if "time_us" in row]
    best = min(timed, key=lambda row: row["time_us"])
    assert f"{best['knob']} = {best['value']}" in capsys.readouterr().out


def test_the_float64_results(rng):
    x, w = rng.standard_normal((2, 3, 5, 6)), rng.standard_normal((4, 3, 3, 3))
    bias = rng.standard_normal((1, 4, 1, 1))
    got = graph_tools.convolution_bias_relu(x, w, bias)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for n, k, i, j in [(0, 0, 0, 0), (1, 3, 4, 5), (1, 2, 2, 3)]:
        total = (padded[n, :, i : i + 3, j : j + 3] * w[k]).sum() + bias[0, k, 0, 0]
        assert got[n, k, i, j] == pytest.approx(max(total, 0))
    assert graph_matmul_bias_gelu.gelu(np.array([0.0, 1.0, -1.0])) == pytest.approx(
        [0, 0.8413447460685429, -0.15865525393145707]
    )


@pytest.mark.parametrize(
    "program",
    [
        [graph_conv_bias_relu.fused],
        [graph_matmul_bias_gelu.chain],
        [graph_engines.problem, graph_engines.names, graph_engines.try_engine],
        [graph_knobs.proposal, graph_knobs.turn],
    ],
    ids=lambda program: program[0].__name__,
)
def test_each_fits_in_forty_lines(program):
    assert sum(len(inspect.getsource(part).splitlines()) for part in program) < 40
