"""Which of the proposed engine configurations to take: what ``pycudnn.config`` allows."""

from __future__ import annotations

from dataclasses import dataclass

from pycudnn.abi.cudnn_enums import BackendNumericalNote as Note
from pycudnn.cudnn._objects import integer
from pycudnn.cudnn.graph.engines import EngineConfig
from pycudnn.cudnn.graph.plan import ExecutionPlan
from pycudnn.errors import CudnnError
from pycudnn.settings import config

_TF32 = frozenset((Note.TENSOR_CORE, Note.DOWN_CONVERT_INPUTS))


@dataclass(frozen=True)
class Choice:
    """Notes of engines that are left out, each with its reason, and a bound of the workspace."""

    refused: dict[Note, str]
    workspace_limit: int | None

    @classmethod
    def of(
        cls,
        float32: bool,
        tf32: bool | None,
        deterministic: bool | None,
        workspace_limit: int | None,
    ) -> Choice:
        """The settings, of ``pycudnn.config`` where they are None; ``float32``: does TF32 matter?

        TypeError for a setting that is no bool or int, ValueError for a negative limit.
        """
        for value, name in ((tf32, "tf32"), (deterministic, "deterministic")):
            if value is not None and not isinstance(value, bool):
                raise TypeError(f"{name} must be True, False or None, got {value!r}")
        refused = {}
        if float32 and not (config.tf32 if tf32 is None else tf32):
            refused = dict.fromkeys(_TF32, "use tensor cores on float32 (tf32 is False)")
        if config.deterministic if deterministic is None else deterministic:
            refused[Note.NONDETERMINISTIC] = "are not deterministic"
        limit = config.workspace_limit if workspace_limit is None else workspace_limit
        return cls(refused, None if limit is None else integer(limit, "workspace_limit", 0, 2**62))

    def try_plan(self, proposed: EngineConfig) -> tuple[ExecutionPlan | None, str]:
        """The plan, or None and why there is none."""
        for note in self.refused.keys() & proposed.engine.effects:
            return None, f"some {self.refused[Note(note)]}"
        if proposed.flaw is not None:
            return None, f"some get {proposed.flaw} wrong"
        try:
            plan = proposed.plan()
        except CudnnError as error:
            return None, f"some fail with {error.status_name}"
        if self.workspace_limit is not None and plan.workspace_size > self.workspace_limit:
            return None, f"some need more than {self.workspace_limit} bytes of workspace"
        return plan, ""
