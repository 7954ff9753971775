"""The results of a run as data: the runner fills them and the report shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.conformance.evidence.divergence import Divergence
from kubeskew.conformance.evidence.lives import PodLife
from kubeskew.conformance.evidence.record import Record
from kubeskew.conformance.evidence.stretches import Stretch
from kubeskew.conformance.scenario import ExpectedFailure


@dataclass(slots=True)
class OperationResult:
    """The result of one operation; `expected` and `found` are set if it failed. `block` is try, catch, ..."""

    title: str
    kind: str
    seconds: float
    expected: str = ""
    found: str = ""
    block: str = "try"
    about: str = ""  # kind and name of what it was done to

    @property
    def failed(self) -> bool:
        return bool(self.expected)


@dataclass(slots=True)
class StepResult:
    """The result of one step; `events` are the log's, from the step's start to its failure."""

    name: str
    operations: list[OperationResult] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)
    skipped: bool = False
    stops: bool = False  # it failed so that the steps after it make no sense
    revisions: tuple[int, int] = (0, 0)  # of the log, at its beginning and end

    @property
    def failed(self) -> bool:
        return any(operation.failed for operation in self.operations)

    @property
    def outcome(self) -> str:
        return "skipped" if self.skipped else "failed" if self.failed else "passed"

    @property
    def seconds(self) -> float:
        return sum(operation.seconds for operation in self.operations)

    @property
    def failure(self) -> str:
        """Returns what the first failed operation expected and found; empty if there is none."""
        for operation in self.operations:
            if operation.failed:
                return f"{operation.title}: expected {operation.expected}; found {operation.found}"
        return ""


@dataclass(slots=True)
class CellResult:
    """The result of a cell. `error` is set if it could not be run at all."""

    name: str
    scenario: str
    parameters: Mapping[str, Any]
    steps: list[StepResult] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""
    expected_failures: Mapping[str, ExpectedFailure] = field(default_factory=dict)  # by step
    observations: dict[str, Any] = field(default_factory=dict)  # what `observe` noted, by name
    baseline: str | None = None  # the cell it is compared with
    components: Sequence[Stretch] = ()
    pods: Sequence[PodLife] = ()
    began: str = ""  # the times of the log's first and last entry
    ended: str = ""
    record: Record | None = None  # what the log says, for comparing; not part of the report
    divergence: Divergence | None = None

    @property
    def outcome(self) -> str:
        """`passed`, `failed`, or `expected`: it failed just where and as upstream fails."""
        failed = {step.name for step in self.steps if step.failed}
        if self.error or failed != set(self.expected_failures) or any(map(self._surprises, self.steps)):
            return "failed"
        return "expected" if failed else "passed"

    @property
    def passed(self) -> bool:
        return self.outcome != "failed"

    @property
    def failure(self) -> str:
        """One line that says where and why; empty if it passed or failed as expected."""
        if self.error or self.passed:
            return self.error
        for step in filter(self._surprises, self.steps):
            return f"{step.name}: {step.failure}"
        failed = {step.name for step in self.steps if step.failed}
        held = [name for name in self.expected_failures if name not in failed]
        reason = self.expected_failures[held[0]].reason
        return f"{', '.join(held)}: passed, though it was expected to fail: {reason}"

    def _surprises(self, step: StepResult) -> bool:
        """Returns whether the step failed where or otherwise than upstream does."""
        expected = self.expected_failures.get(step.name)
        if not step.failed or expected is None:
            return step.failed
        return not any(each.failed and expected.found in each.found for each in step.operations)
