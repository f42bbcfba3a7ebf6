"""The form of result files, and what is made from them."""

from __future__ import annotations

import json

import make_performance
import pytest
import results


@pytest.fixture
def result() -> results.Result:
    made = results.begin("some-benchmark", "reference", packages=["pytest"], batch=7)
    made.rows += [
        {"name": "a", "size": 1, "us": 1234.5},
        {"name": "a", "size": 100, "us": None},
        {"name": "b", "size": 12_345, "us": 0.000123456, "note": "x"},
    ]
    return made


def test_a_file_has_the_one_form(result, tmp_path):
    path = results.save(result, tmp_path / "new")
    assert path.parent == tmp_path / "new"
    assert path.name == f"some-benchmark-{results.slug(result.device)}.json"
    content = json.loads(path.read_text())
    assert list(content) == [
        "benchmark", "device", "versions", "commit", "date", "settings", "rows"
    ]  # fmt: skip
    assert content["settings"] == {"batch": 7}
    assert set(content["versions"]) == {
        "python", "numpy", "pycudnn", "cudnn", "cublas", "pytest"
    }  # fmt: skip
    assert content["versions"]["pytest"] == pytest.__version__
    assert "(reference)" in content["versions"]["cudnn"]
    assert content["date"].endswith("+00:00")
    assert results.load(path) == result


def test_other_forms_are_refused(result, tmp_path):
    path = results.save(result, tmp_path)
    content = json.loads(path.read_text())
    del content["commit"]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="no result file: .*commit"):
        results.load(path)
    content.update(commit="x", rows=[{"name": "a", "times": [1, 2]}])
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"rows must be flat, \['times'\] are not"):
        results.load(path)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("NVIDIA H200", "nvidia-h200"), ("AMD EPYC 7B13, 2 cores ", "amd-epyc-7b13-2-cores")],
)
def test_slug(text, wanted):
    assert results.slug(text) == wanted


def test_the_commit_may_come_from_outside(monkeypatch):
    monkeypatch.setenv("PYCUDNN_COMMIT", "abc123")
    assert results.commit() == "abc123"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(None, "n/a"), (1.23456, "1.235"), (12345.6, "12,346"), (1234567, "1,234,567"), ("x", "x"),
     (True, "True"), (1e-5, "1e-05")],
)  # fmt: skip
def test_format(value, wanted):
    assert results.format_value(value) == wanted


def test_tables(result):
    assert results.table(result.rows).splitlines() == [
        "name    size         us  note",
        "----  ------  ---------  ----",
        "   a       1       1234   n/a",
        "   a     100        n/a   n/a",
        "   b  12,345  0.0001235     x",
    ]
    assert results.markdown(result.rows, ["size", "name"]).splitlines() == [
        "| size | name |",
        "| --- | --- |",
        "| 1 | a |",
        "| 100 | a |",
        "| 12,345 | b |",
    ]


def test_plots(result, tmp_path):
    pytest.importorskip("matplotlib")
    results.draw_lines(result, tmp_path / "lines.png", x="size", y="us", series="name")
    results.draw_bars(result, tmp_path / "bars.png", labels=("name", "size"), y="us")
    for name in ("lines", "bars"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_document_has_pictures_and_leaves_out_what_was_refused(tmp_path):
    pytest.importorskip("matplotlib")
    knobs = results.Result("graph-knobs", "Some GPU", {}, "abc", "2020-01-02T03:04:05", {})
    for value, row in enumerate(({"time_us": 9.5}, {"status": "not_supported"}, {"time_us": 1e4})):
        knobs.rows.append({"knob": "TILE_SIZE", "value": value, **row})
    results.save(knobs, tmp_path)
    text = make_performance.make(tmp_path, tmp_path / "performance.md")
    assert "| TILE_SIZE | 0 | 9.5 |" in text
    assert "| TILE_SIZE | 2 | 10,000 |" in text
    assert "not_supported" not in text
    assert "(graph-knobs-some-gpu.png)" in text
    assert (tmp_path / "graph-knobs-some-gpu.png").read_bytes().startswith(b"\x89PNG")


def test_finish_prints_and_writes(result, tmp_path, capsys):
    options = results.parser("x").parse_args(["--output", str(tmp_path)])
    results.finish(result, options, labels=("name",), y="us")
    output = capsys.readouterr().out
    assert f"some-benchmark on {result.device} (batch 7)" in output
    assert "0.0001235" in output
    assert results.load(tmp_path / result.file_name) == result


def test_a_quick_run_takes_no_result_away(result, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(results, "DIRECTORY", tmp_path)
    results.finish(result, results.parser("x").parse_args(["--quick"]))
    assert "not written" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    results.finish(result, results.parser("x").parse_args([]))
    assert results.load(tmp_path / result.file_name) == result


def test_the_document_is_made_from_the_files(result, tmp_path):
    step, accuracy = (
        results.Result(name, "Some GPU", {"python": "3"}, "abc", "2020-01-02T03:04:05", {"k": 1})
        for name in ("train-step", "accuracy")
    )
    for implementation, batch, us in (("x", 32, 10.2), ("x", 64, 19.6), ("y", 64, 30.0)):
        step.rows.append({"implementation": implementation, "batch": batch, "wall_us": us})
    for seed, percent in enumerate((98.0, 97.0, 99.0)):
        accuracy.rows.append(
            {"run": "lenet", "seed": seed, "steps": 5, "batch": 6, "learning_rate": 0.1,
             "last_200_steps_percent": percent + 0.5, "test_percent": percent}
        )  # fmt: skip
    for each in (step, accuracy):
        results.save(each, tmp_path)
    document = tmp_path / "docs" / "performance.md"
    text = make_performance.make(tmp_path, document, plots=False)
    assert document.read_text() == text
    for line in (
        "### Some GPU",
        "| implementation | batch 32 | batch 64 |",
        "| x | 10 | 20 |",
        "| y | n/a | 30 |",
        "| lenet | 5 | 6 | 0.1 | 3 | 97.00 % | 98.00 % | 99.00 % | 97.50 % |",
        "train-step, 2020-01-02, commit abc; python 3; k 1.",
    ):
        assert line in text.splitlines(), line

    results.save(result, tmp_path)
    with pytest.raises(ValueError, match="no section for some-benchmark"):
        make_performance.make(tmp_path, document, plots=False)
