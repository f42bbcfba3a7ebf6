"""`python -m pycudnn --coverage`: what is declared, exported, implemented and called."""

from __future__ import annotations

import json

import pytest

from pycudnn import abi, coverage, cudnn, loader, raw, reference
from pycudnn.__main__ import main

DECLARED = {
    "cudnn_graph": 24,
    "cudnn_ops": 100,
    "cudnn_cnn": 50,
    "cudnn_adv": 47,
    "cudnn_subquadratic_ops": 12,
    "cudnn_gnn_ops": 6,
    "cublas_api": 539,
    "cublasLt": 54,
}


@pytest.fixture(scope="module")
def rows():
    return {row.header: row for row in coverage.coverage()}


def test_every_declared_function_is_in_one_row(rows):
    assert {header: len(row.declared) for header, row in rows.items()} == DECLARED


def test_reference_functions_are_those_with_an_address(rows):
    for row in rows.values():
        for name in row.declared:
            assert (name in row.reference) == bool(reference.address(row.library, name))
    assert len(rows["cudnn_ops"].reference) > 40


@pytest.mark.library
def test_real_library_exports_what_its_version_declares(rows):
    for row in rows.values():
        cdll = loader.load(row.library).cdll
        assert set(row.exported) == {name for name in row.declared if hasattr(cdll, name)}
        declared_only = {"cublasLtDisableCpuInstructionsSetMask"}
        assert set(row.known) - declared_only <= set(row.exported)


def test_known_functions_are_those_up_to_the_version(monkeypatch):
    old = loader.LoadedLibrary("cudnn", "/old", object(), 91400, 13, "wheel")
    monkeypatch.setattr(loader, "load", lambda name: old)
    rows = {row.header: row for row in coverage.coverage()}
    assert rows["cudnn_ops"].version == "9.14.0"
    assert len(rows["cudnn_ops"].known) == 100
    assert rows["cudnn_gnn_ops"].known == ()
    lacking = set(rows["cudnn_graph"].declared) - set(rows["cudnn_graph"].known)
    assert lacking == {"cudnnGetExecutionPlanWorkspaceSize"}  # since 9.23
    assert rows["cudnn_ops"].exported == ()


def test_object_face_is_what_its_sources_call(rows):
    called = coverage.face_functions()
    calls = {
        "cudnnSoftmaxForward",  # in an extension
        "cudnnSetPoolingNdDescriptor",  # a string of its own
        "cudnnCreatePoolingDescriptor",  # put together
        "cudnnGetConvolutionBackwardDataAlgorithmMaxCount",  # with a part in the middle
        "cublasSgemm_v2",
        "cublasSgemm_v2_64",
        "cublasSetStream_v2",
    }
    assert calls <= called
    # These have no use in Python: what they do, constructors and properties do.
    assert not {"cudnnGetTensor4dDescriptor", "cudnnGetPooling2dDescriptor"} & called
    assert all(abi.library_of(name) for name in called)
    assert len(rows["cudnn_ops"].face) >= 43
    assert cudnn.softmax_forward


def test_text_that_only_mentions_a_function_does_not_count(monkeypatch, tmp_path):
    (tmp_path / "cudnn").mkdir()
    (tmp_path / "raw.py").write_text('call("cudnnLRNCrossChannelForward")')
    (tmp_path / "cudnn" / "face.py").write_text(
        '"""Calls cudnnAddTensor."""  # "cudnnScaleTensor"\n'
        'call("cudnnDropoutForward")\n'
        'noun = "Tensor"\n'
        'call(f"cudnnSet{noun}")\n'
        'raise ValueError("use cudnnOpTensor")\n'
    )
    monkeypatch.setattr(coverage, "_PACKAGE", tmp_path)
    monkeypatch.setattr(coverage, "_cublas_functions", set)
    assert coverage.face_functions() == {"cudnnDropoutForward", "cudnnSetTensor"}


def test_command_prints_a_line_per_header_and_a_sum(rows, capsys):
    main(["--coverage"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert tuple(lines[0]) == coverage.COLUMNS
    assert [line[2] for line in lines[1:7]] == list(rows)[:6]
    total = lines[7]
    assert total[2:4] == ["all", "239"]
    assert total[-2] == str(sum(len(row.reference) for row in list(rows.values())[:6]))
    assert [line[2:4] for line in lines[8:10]] == [["cublas_api", "539"], ["cublasLt", "54"]]


def test_missing_functions_are_named_by_header(rows, capsys):
    main(["--coverage", "--missing"])
    text = capsys.readouterr().out
    row = rows["cudnn_adv"]
    lacking = [name for name in row.declared if name not in row.reference]
    start = text.index(f"cudnn_adv, not in reference: {len(lacking)}\n")
    named = text[start:].split("\n\n")[0].splitlines()[1:]
    assert [name.strip() for name in named] == lacking
    main(["--coverage", "--missing", "--json"])
    by_header = {entry["header"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert by_header["cudnn_adv"]["missing"]["reference"] == lacking
    assert by_header["cudnn_adv"]["reference"] == len(row.declared) - len(lacking)


def test_missing_alone_is_an_error(capsys):
    with pytest.raises(SystemExit):
        main(["--missing"])
    assert "--missing goes with --coverage" in capsys.readouterr().err


def test_without_libraries_the_counts_of_the_tables_remain(monkeypatch):
    def load(name: str) -> None:
        raise loader.LibraryNotFound(f"no {name}")

    monkeypatch.setattr(loader, "load", load)
    rows = coverage.coverage()
    assert {row.header: len(row.declared) for row in rows} == DECLARED
    assert {(row.version, row.known, row.exported) for row in rows} == {(None, None, None)}
    assert coverage.table(rows)[1][1] == "-"
    assert raw.cudnnCreate.__name__ in rows[0].declared
