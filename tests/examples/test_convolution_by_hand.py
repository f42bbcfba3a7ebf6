"""The convolution by hand: right results for every algorithm, a table and a chart."""

from __future__ import annotations

import convolution_by_hand as by_hand
import numpy as np
import pytest
import results


@pytest.mark.parametrize(("padding", "stride"), [(0, 1), (2, 1), (1, 2), (0, 3)])
def test_the_float64_results_are_derivatives_of_each_other(padding, stride, rng):
    """y is linear in x and in w, so <dy, y> = <dx, x> = <dw, w>."""
    x = rng.standard_normal((2, 3, 9, 7))
    w = rng.standard_normal((4, 3, 3, 3))
    y_shape = (2, 4, *((size + 2 * padding - 3) // stride + 1 for size in x.shape[2:]))
    dy = rng.standard_normal(y_shape)
    found = by_hand.in_float64(x, w, dy, padding, stride)
    assert found["forward"].shape == y_shape
    wanted = np.vdot(dy, found["forward"])
    assert np.vdot(x, found["backward data"]) == pytest.approx(wanted)
    assert np.vdot(w, found["backward filter"]) == pytest.approx(wanted)


def test_the_float64_forward_by_an_example():
    x = np.arange(1, 7.0).reshape(1, 1, 1, 6)
    w = np.array([1, 2, 3.0]).reshape(1, 1, 1, 3)
    found = by_hand.in_float64(x, w, np.ones((1, 1, 1, 4)), 0, 1)
    assert found["forward"].ravel().tolist() == [14, 20, 26, 32]
    assert found["backward data"].ravel().tolist() == [1, 3, 6, 6, 5, 3]
    assert found["backward filter"].ravel().tolist() == [10, 14, 18]


def test_c10_every_algorithm_is_right_and_shown(backend, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    by_hand.main(
        [
            "--backend",
            backend,
            "--input",
            "2",
            "3",
            "9",
            "8",
            "--filters",
            "4",
            "--window",
            "3",
            "--padding",
            "1",
            "--plot",
            str(tmp_path / "bars.png"),
            "--output",
            str(tmp_path),
        ]  # fmt: skip
    )
    output = capsys.readouterr().out
    (path,) = tmp_path.glob("convolution-by-hand-*.json")
    rows = results.load(path).rows
    ran = [row for row in rows if "max_error" in row]
    assert {row["direction"] for row in ran} == {"forward", "backward data", "backward filter"}
    for row in ran:
        assert row["max_error"] < 3e-5
        assert row["time_us"] > 0
        assert row["workspace_bytes"] >= 0
    refused = [row for row in rows if "note" in row]
    assert len(ran) + len(refused) == len(rows)
    for row in refused:
        assert "NOT_SUPPORTED" in row["note"] or "BAD_PARAM" in row["note"]
    for row in rows:
        assert row["algorithm"] in output
    assert "padding=(1, 1)" in output
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--input", "1", "0", "1", "1"], "--input: must be at least 1, got 0"),
        (["--stride", "0"], "--stride: must be at least 1, got 0"),
        (["--padding", "-1"], "--padding: must be at least 0, got -1"),
        (["--math-type", "NOPE"], "--math-type: invalid choice: 'NOPE'"),
        (["--window", "99"], "window"),
        (["--plot", "missing/x.png"], "--plot missing/x.png: there is no folder"),
    ],
)
def test_bad_options_are_one_line(options, text, backend, capsys):
    pytest.importorskip("matplotlib")
    with pytest.raises(SystemExit) as stopped:
        by_hand.main(["--backend", backend, *options])
    assert stopped.value.code == 2
    assert text in capsys.readouterr().err.splitlines()[-1]
