"""The heuristic's proposals, enumeration, configuration and checks of algorithms."""

from __future__ import annotations

import numpy as np
import pytest

from pycudnn import _core, config, cublaslt, empty
from pycudnn.cublaslt import (
    Algorithm,
    ComputeType,
    HeuristicRecord,
    HeuristicRecords,
    MatmulPreference,
    MatmulStages,
    MatmulTile,
    ReductionScheme,
    Status,
)
from pycudnn.errors import CublasError, FunctionNotFound, NoAlgorithm, NotSupported

TYPES = (ComputeType.COMPUTE_32F, "float32", "float32", "float32", "float32", "float32")
M, N, K = 64, 48, 32


@pytest.fixture
def problem(describe, layout):
    """Descriptor and layouts of a product."""
    return (
        describe(), layout("float32", M, K), layout("float32", K, N), None, layout("float32", M, N),
    )  # fmt: skip


@pytest.fixture
def run(handle, put, problem, rng):
    """Computes the product with an algorithm; returns the largest error."""
    a, b = rng.standard_normal((K, M)).astype("f4"), rng.standard_normal((N, K)).astype("f4")
    desc, a_layout, b_layout, _, d_layout = problem

    def compute(algorithm, workspace=None):
        d = put(np.full((N, M), np.nan, np.float32))
        cublaslt.matmul(
            handle, desc, put(a), a_layout, put(b), b_layout, None, None, d, d_layout, algorithm,
            workspace,
        )  # fmt: skip
        return np.abs(d.numpy() - b.astype(float) @ a).max()

    return compute


def scratch(handle, nbytes):
    return empty(nbytes, "uint8", device=handle.device) if nbytes else None


def test_every_proposal_computes(handle, problem, run):
    records = cublaslt.get_heuristics(handle, *problem, None, 20)
    assert 1 <= len(records) <= 20
    for record in records:
        assert record.status is Status.SUCCESS
        assert 0 <= record.workspace <= 32 << 20
        assert record.waves >= 0
        assert run(record.algorithm, scratch(handle, record.workspace)) < 1e-4
        checked = cublaslt.check_algorithm(handle, *problem, record.algorithm)
        assert checked.algorithm is record.algorithm
        assert checked.workspace == record.workspace
    assert records.best is records[0]


def test_requested(handle, problem):
    assert len(cublaslt.get_heuristics(handle, *problem, None, 1)) == 1
    for wrong in (0, -1, 10**6):
        with pytest.raises(ValueError, match="^requested must be in"):
            cublaslt.get_heuristics(handle, *problem, None, wrong)
    with pytest.raises(TypeError, match="^preference must be a MatmulPreference"):
        cublaslt.get_heuristics(handle, *problem, 5)


def test_limits_are_kept(handle, problem, backend):
    preference = MatmulPreference(0, library=backend)
    assert all(r.workspace == 0 for r in cublaslt.get_heuristics(handle, *problem, preference))
    with config.override(workspace_limit=1000):
        records = cublaslt.get_heuristics(handle, *problem)
    assert records.max_workspace_bytes == 1000
    assert all(record.workspace <= 1000 for record in records)
    with config.override(deterministic=True):
        records = cublaslt.get_heuristics(handle, *problem, None, 50)
    schemes = {record.algorithm.reduction_scheme for record in records}
    assert ReductionScheme.INPLACE not in schemes


def test_best_keeps_to_the_limit(handle, problem):
    (record, *_) = cublaslt.get_heuristics(handle, *problem)
    failed = record._replace(status=Status.NOT_SUPPORTED)
    large = record._replace(workspace=4096)
    assert HeuristicRecords([failed, large, record._replace(workspace=7)], 100).best.workspace == 7
    with pytest.raises(NoAlgorithm, match="max_workspace_bytes=100, of 2 proposed"):
        _ = HeuristicRecords([failed, large], 100).best


def test_the_table(handle, problem):
    records = cublaslt.get_heuristics(handle, *problem)
    lines = str(records).splitlines()
    assert lines[0].split() == (
        ["algorithm", "tile", "stages", "split", "k", "workspace", "waves", "status"]
    )
    assert len(lines) == 1 + len(records)
    for line, record in zip(lines[1:], records, strict=True):
        cells = line.split()
        assert cells[0] == str(record.algorithm.id)
        assert cells[-1] == "SUCCESS"
    big = HeuristicRecord(records[0].algorithm, 1234567, 0.5, Status.SUCCESS)
    assert "1,234,567   0.50  SUCCESS" in str(HeuristicRecords([big], 0))


def test_what_the_workspace_needs(handle, problem, run, monkeypatch):
    """Case C3's rule: one byte too few is an error before the call."""
    (record, *_) = cublaslt.get_heuristics(handle, *problem)
    if not record.workspace:  # say that this one needs some
        from pycudnn.cublaslt import heuristics

        asked = heuristics.check
        monkeypatch.setattr(heuristics, "check", lambda *a: asked(*a)._replace(workspace=512))
        record = record._replace(workspace=512)
    short = scratch(handle, record.workspace - 1)
    needed = record.workspace
    with pytest.raises(ValueError, match=f"^workspace needs {needed} bytes, got {needed - 1}$"):
        run(record.algorithm, short)
    with pytest.raises(ValueError, match=f"^workspace needs {needed} bytes, got None$"):
        run(record.algorithm)
    assert run(record.algorithm, scratch(handle, needed)) < 1e-4


@pytest.fixture
def picky(handle, problem, monkeypatch):
    """The heuristic's first algorithm, made to need 16 bytes of all operands."""
    (record, *_) = cublaslt.get_heuristics(handle, *problem)
    needs = dict.fromkeys("abcd", 16)
    monkeypatch.setitem(vars(record.algorithm), "alignments", needs)
    monkeypatch.setattr(Algorithm, "alignments", needs)
    return record


def test_alignment_that_the_algorithm_needs(handle, put, problem, layout, picky):
    desc, a_layout, b_layout, _, d_layout = problem
    a, d = put(np.ones((K, M), np.float32)), put(np.ones((N, M + 1), np.float32))
    b = put(np.ones(K * N + 4, np.float32)).view((K * N,), offset=4)
    rest = picky.algorithm, scratch(handle, picky.workspace)
    with pytest.raises(
        ValueError,
        match=r"^b must be aligned to 16 bytes for this algorithm, got the address 0x\w+4: ask "
        "get_heuristics with a MatmulPreference of min_alignment_b=4$",
    ):
        cublaslt.matmul(handle, desc, a, a_layout, b, b_layout, None, None, d, d_layout, *rest)
    b, wide = put(np.ones((N, K), np.float32)), layout("float32", M, N, M + 1)
    with pytest.raises(ValueError, match="^c_layout must have its leading dimension and stride at"):
        cublaslt.matmul(handle, desc, a, a_layout, b, b_layout, None, None, d, wide, *rest)
    with pytest.raises(ValueError, match="^d_layout must have its leading dimension and stride at"):
        cublaslt.matmul(
            handle, desc, a, a_layout, b, b_layout, put(np.ones((N, M), np.float32)), d_layout, d,
            wide, *rest, beta=1.0,
        )  # fmt: skip


def test_proposals_fit_the_leading_dimensions(handle, problem, layout, picky):
    wide = layout("float32", M, N, M + 1)
    assert cublaslt.get_heuristics(handle, *problem)
    assert not cublaslt.get_heuristics(handle, *problem[:4], wide)
    assert not cublaslt.get_heuristics(handle, *problem[:3], wide, problem[4])


def test_c_laid_out_otherwise_than_d(handle, put, layout, describe, rng):
    """One algorithm is chosen here, by the alignment of both."""
    a, b = rng.standard_normal((K, M)), rng.standard_normal((N, K))
    c, d = rng.standard_normal((N, M + 8)), put(np.full((N, M + 5), np.nan, np.float16))
    halves = [x.astype(np.float16) for x in (a, b, c)]
    a, b, c = (x.astype(np.float64) for x in halves)
    for workspace in (None, scratch(handle, 1 << 20)):
        cublaslt.matmul(
            handle, describe(), put(halves[0]), layout("float16", M, K), put(halves[1]),
            layout("float16", K, N), put(halves[2]), layout("float16", M, N, M + 8), d,
            layout("float16", M, N, M + 5), None, workspace, beta=-1.0,
        )  # fmt: skip
        got = d.numpy().astype(np.float64)
        np.testing.assert_allclose(got[:, :M], b @ a - c[:, :M], atol=0.05)
        assert np.isnan(got[:, M:]).all()


# ---- enumeration and configuration ---------------------------------------------------------------


def test_enumeration(handle):
    ids = cublaslt.get_algorithm_ids(handle, *TYPES)
    assert ids
    assert len(set(ids)) == len(ids)
    assert cublaslt.get_algorithm_ids(handle, *TYPES, 1) == ids[:1]
    for number in ids:
        algorithm = Algorithm(handle, *TYPES, number)
        assert algorithm.id == number
        assert algorithm.split_k == 1
        assert algorithm.tile is MatmulTile.UNDEFINED


def test_capabilities(handle):
    for number in cublaslt.get_algorithm_ids(handle, *TYPES):
        can = Algorithm(handle, *TYPES, number).capabilities
        assert all(isinstance(tile, int) for tile in can.tiles)
        assert can.out_of_place in (True, False)
        assert can.pointer_modes & 1  # HOST
        assert can.epilogues is not None
        assert can.min_alignment_a in (1, 2, 4, 8, 16, 32, 64, 128, 256)


def test_types_that_have_none(handle):
    with pytest.raises((NotSupported, CublasError)):
        cublaslt.get_algorithm_ids(handle, ComputeType.COMPUTE_64F, *["float16"] * 5)
    with pytest.raises((NotSupported, CublasError)):
        Algorithm(handle, ComputeType.COMPUTE_64F, *["float16"] * 5, 0)
    with pytest.raises((NotSupported, CublasError)):
        Algorithm(handle, *TYPES, 999)


@pytest.mark.parametrize(
    ("place", "wrong", "error", "text"),
    [
        (0, 99, ValueError, "compute_type must be"), (1, "x", ValueError, "scale_type must be"),
        (2, None, ValueError, "a_type must be"), (5, 33, ValueError, "d_type must be"),
    ],
)  # fmt: skip
def test_wrong_types(handle, place, wrong, error, text):
    types = [*TYPES]
    types[place] = wrong
    with pytest.raises(error, match=text):
        cublaslt.get_algorithm_ids(handle, *types)
    with pytest.raises(error, match=text):
        Algorithm(handle, *types, 0)


def test_wrong_numbers_and_handles(handle):
    for wrong in (-1, 2**31):
        with pytest.raises(ValueError, match="^id must be in"):
            Algorithm(handle, *TYPES, wrong)
    for wrong in (None, 5):
        with pytest.raises(TypeError, match="^handle must be a Handle"):
            cublaslt.get_algorithm_ids(wrong, *TYPES)
    with pytest.raises(ValueError, match="^requested must be in"):
        cublaslt.get_algorithm_ids(handle, *TYPES, 0)


def test_configuration(handle):
    number = cublaslt.get_algorithm_ids(handle, *TYPES)[0]
    algorithm = Algorithm(handle, *TYPES, number)
    other = algorithm.replace(
        tile=MatmulTile.TILE_64x64, stages=MatmulStages.STAGES_32x4, split_k=3, swizzling=1,
        reduction_scheme=ReductionScheme.COMPUTE_TYPE, custom_option=2, inner_shape=1,
        cluster_shape=2,
    )  # fmt: skip
    assert other.id == number
    assert other.tile is MatmulTile.TILE_64x64
    assert other.stages is MatmulStages.STAGES_32x4
    assert (other.split_k, other.swizzling, other.custom_option) == (3, 1, 2)
    assert other.reduction_scheme is ReductionScheme.COMPUTE_TYPE
    assert (other.inner_shape, other.cluster_shape) == (1, 2)
    assert algorithm.split_k == 1
    assert algorithm == algorithm.replace() != other
    assert len({algorithm, algorithm.replace(), other}) == 2
    assert "split_k=3, reduction_scheme=COMPUTE_TYPE" in repr(other)
    for changes, error, text in (
        ({"tile": 100000}, ValueError, "tile must be a MatmulTile"),
        ({"split_k": -1}, ValueError, "split_k must be in"),
        ({"custom_option": "x"}, TypeError, "custom_option must be an int"),
        ({"id": 3}, TypeError, r"replace\(\) has tile, stages, .*, got id"),
    ):
        with pytest.raises(error, match=text):
            algorithm.replace(**changes)


def test_an_algorithm_that_cannot_run(handle, problem, run):
    """On the reference side one of a wrong configuration, on a GPU one of other types."""
    (record, *_) = cublaslt.get_heuristics(handle, *problem)
    wrong = record.algorithm.replace(split_k=5000)
    if handle.library.backend == "cuda":
        types = ComputeType.COMPUTE_64F, *["float64"] * 5
        wrong = Algorithm(handle, *types, cublaslt.get_algorithm_ids(handle, *types)[-1])
    with pytest.raises(CublasError):
        cublaslt.check_algorithm(handle, *problem, wrong)
    with pytest.raises(CublasError):
        run(wrong)


def test_for_a_stream(handle, problem):
    with pytest.raises(ValueError, match="^stream must be a Stream of"):
        cublaslt.get_heuristics(handle, *problem, stream=0)
    try:
        (record, *_) = cublaslt.get_heuristics(handle, *problem, stream=handle.stream)
    except FunctionNotFound as error:
        assert "needs cublasLt 13.5.1" in str(error)  # noqa: PT017
        return
    checked = cublaslt.check_algorithm(handle, *problem, record.algorithm, stream=handle.stream)
    assert checked.workspace == record.workspace


def test_a_closed_preference(handle, problem, backend):
    preference = MatmulPreference(library=backend)
    preference.close()
    with pytest.raises(ValueError, match="this MatmulPreference is closed"):
        cublaslt.get_heuristics(handle, *problem, preference)


def test_an_algorithm_outlives_its_handle(backend, problem):
    with cublaslt.Handle(library=backend) as handle:
        (record, *_) = cublaslt.get_heuristics(handle, *problem)
    assert record.algorithm.id >= 0
    with _core.ColdCall(record.algorithm.library):
        pass
    assert record.algorithm.capabilities.tiles
