"""Results of a run as data: the runner fills them and the report shows them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.conformance.evidence.comparison import Divergence, Record
from kubeskew.conformance.evidence.components import ComponentRun, FaultMoment
from kubeskew.conformance.evidence.lives import ObjectLife, PodLife
from kubeskew.conformance.evidence.nodes import DriverCall
from kubeskew.conformance.scenario import INVARIANTS, Exemption, ExpectedFailure

PASSED = "passed"
EXPECTED = "expected"  # failed as upstream fails
FAILED = "failed"
NOT_RUN = "notRun"
OUTCOMES = (PASSED, EXPECTED, FAILED, NOT_RUN)


@dataclass(slots=True)
class OperationResult:
    """One operation's result; `expected` and `found` are set if it failed. `block` is try, catch, ..."""

    title: str
    kind: str
    seconds: float
    expected: str = ""
    found: str = ""
    block: str = "try"
    about: str = ""  # kind and name of what it was done to
    broken: bool = False  # the scenario is wrong, or kubeskew is: no failure that upstream could have
    not_run: str = ""  # why it was not run
    shown: str = ""  # objects and logs for the reader, or a program's output
    impossible: bool = False  # not run, since it, or what it needs, cannot be done to a real program
    value: Any = None  # of a metric: a number, or `{count, sum, buckets}`

    @property
    def failed(self) -> bool:
        return bool(self.expected)

    @property
    def outcome(self) -> str:
        return FAILED if self.failed else NOT_RUN if self.not_run else PASSED

    @property
    def failure(self) -> str:
        return f"{self.title}: expected {self.expected}; found {self.found}" if self.failed else ""


@dataclass(slots=True)
class StepResult:
    """One step's result; `events` are the log's, from the step's start to its failure."""

    name: str
    operations: list[OperationResult] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)
    not_run: str = ""  # why it was not run
    impossible: str = ""  # why it, or a part of it, cannot be done to a real program
    behind: str = ""  # the first step of the cell that could not be done to a real program, and why
    stops: bool = False  # a failed operation ends the step
    revisions: tuple[int, int] = (0, 0)  # of the log, at the beginning and end of the step
    since: str = ""  # the times of the entries with these revisions
    until: str = ""

    @property
    def failures(self) -> Sequence[OperationResult]:
        return [operation for operation in self.operations if operation.failed]

    @property
    def failed(self) -> bool:
        return bool(self.failures)

    @property
    def left_out(self) -> bool:
        """True also of a step that was begun, and had an operation that cannot be done to a real program."""
        return bool(self.not_run) or (bool(self.impossible) and not self.failed)

    @property
    def operations_not_run(self) -> int:
        """Operations are left out behind one that failed, or for want of a binding."""
        return sum(bool(operation.not_run) for operation in self.operations)

    @property
    def seconds(self) -> float:
        return sum(operation.seconds for operation in self.operations)


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """A step's outcome, compared with its file: `red` if it differs, with the reason `why`.

    `reason` is, of a step that failed as upstream or was rightly left out, the text of the file. `missed`:
    every failure was expected, and one that was expected did not come.
    """

    outcome: str
    red: bool = False
    why: str = ""
    reason: str = ""
    source: str = ""
    missed: bool = False


def judge(step: StepResult, marks: Sequence[ExpectedFailure], exemptions: Sequence[Exemption]) -> StepVerdict:
    """Every failure must fit a mark, and every mark must have its failure.

    A step that was not run is right only where the file exempts it; one that was run, only where it does not.
    Where a real program cannot do what a step asks, its marks do not count. A step behind it may lack what
    that one was to bring about: its failure shows nothing.
    """
    if step.impossible and step.left_out:
        return StepVerdict(NOT_RUN, why=step.impossible)
    verdict = _judge(step, marks, exemptions)
    if step.behind and verdict.red and (verdict.missed or step.name != INVARIANTS):
        return StepVerdict(NOT_RUN, why=f"{step.behind}, so that this shows nothing: {verdict.why}")
    return verdict


def _judge(
    step: StepResult, marks: Sequence[ExpectedFailure], exemptions: Sequence[Exemption]
) -> StepVerdict:
    if step.not_run:
        reason = _joined(exemption.reason for exemption in exemptions)
        return StepVerdict(NOT_RUN, not exemptions, step.not_run, reason)
    marked = "; ".join(f"it was to fail with {mark.found!r}: {mark.reason}" for mark in marks)
    for operation in step.failures:
        if operation.broken or not any(mark.matched(operation.found) for mark in marks):
            return StepVerdict(FAILED, red=True, why=operation.failure, reason=marked)
    if not step.failed and (
        left := [each for each in step.operations if each.block == "try" and each.not_run]
    ):
        return StepVerdict(FAILED, red=True, why=f"{left[0].title}: was not run: {left[0].not_run}")
    for mark in marks:
        if not any(mark.matched(operation.found) for operation in step.failures):
            failures = "; ".join(operation.failure for operation in step.failures)
            why = failures or f"passed, though it was expected to fail: {mark.reason}"
            return StepVerdict(FAILED, red=True, why=why, reason=marked, missed=True)
    if exemptions:
        why = f"was run, though notRun lists it: {exemptions[0].reason}"
        return StepVerdict(FAILED, red=True, why=why, missed=True)
    if not marks:
        return StepVerdict(PASSED)
    why = "; ".join(operation.failure for operation in step.failures)
    reasons = _joined(mark.reason for mark in marks)
    return StepVerdict(EXPECTED, False, why, reasons, _joined(mark.source for mark in marks))


def _joined(texts: Iterable[str]) -> str:
    """Each text comes once, in order: several marks of a step often have one reason."""
    return "; ".join(dict.fromkeys(texts))


@dataclass(slots=True)
class CellResult:
    """A cell's result. `error` is set if it could not be run at all."""

    name: str
    scenario: str
    parameters: Mapping[str, Any]
    steps: list[StepResult] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""
    expected_failures: Mapping[str, Sequence[ExpectedFailure]] = field(default_factory=dict)  # by step
    exemptions: Mapping[str, Sequence[Exemption]] = field(default_factory=dict)  # by step
    observations: dict[str, Any] = field(default_factory=dict)  # values of `observe`, by name
    baseline: str | None = None  # the cell it is compared with
    components: Sequence[ComponentRun] = ()
    branches: Mapping[str, Sequence[ComponentRun]] = field(default_factory=dict)  # of a fork, by name
    pods: Sequence[PodLife] = ()
    objects: Sequence[ObjectLife] = ()  # others than pods
    calls: Sequence[DriverCall] = ()
    logs: Mapping[str, str] = field(default_factory=dict)  # by process, the last lines; of a cell that failed
    faults: Sequence[FaultMoment] = ()
    began: str = ""  # the times of the log's first and last entry
    ended: str = ""
    seed: int | None = None  # of a simulation; processes run without one
    log_hash: str = ""  # of a simulation: of its log, to the byte
    record: Record | None = None  # facts of the log, for comparing; not part of the report
    divergence: Divergence | None = None
    digest: str = ""  # of what it came from (resumption.py), if it was run to its end
    side_by_side: "SideBySide | None" = None  # with the same cell, emulated

    def verdict(self, step: StepResult) -> StepVerdict:
        marks, exemptions = self.expected_failures.get(step.name, ()), self.exemptions.get(step.name, ())
        return judge(step, marks, exemptions)

    def verdicts(self) -> Iterator[tuple[StepResult, StepVerdict]]:
        for step in self.steps:
            yield step, self.verdict(step)

    @property
    def ways(self) -> Mapping[str, Sequence[ComponentRun]]:
        """Branches of a fork stand under their names, a cell's own cluster under the empty one."""
        return self.branches or {"": self.components}

    @property
    def programs(self) -> Mapping[str, Sequence[str]]:
        """By component, the real programs that ran in its place, one after the other."""
        found: dict[str, list[str]] = {}
        for run in (run for runs in self.ways.values() for run in runs if run.program):
            known = found.setdefault(run.component, [])
            if run.program not in known:
                known.append(run.program)
        return {name: found[name] for name in sorted(found)}

    @property
    def steps_run(self) -> int:
        return sum(verdict.outcome != NOT_RUN for _, verdict in self.verdicts())

    @property
    def steps_not_run(self) -> int:
        return len(self.steps) - self.steps_run

    @property
    def outcome(self) -> str:
        """`passed`; `expected` if something failed as upstream fails; `failed`; `notRun` if no step was."""
        verdicts = [verdict for _, verdict in self.verdicts()]
        if not self.error and self.steps and not self.steps_run:
            return NOT_RUN
        if self.error or any(verdict.red for verdict in verdicts):
            return FAILED
        if any(verdict.outcome == EXPECTED for verdict in verdicts):
            return EXPECTED
        return PASSED

    @property
    def passed(self) -> bool:
        return not self.error and not any(verdict.red for _, verdict in self.verdicts())

    @property
    def failure(self) -> str:
        """One line with place and reason; it is empty if the cell passed or failed as expected.

        A step that was not run comes after the step that kept it from it, and is named only if there is
        nothing else.
        """
        if self.error:
            return self.error
        red = [(step, verdict) for step, verdict in self.verdicts() if verdict.red]
        red.sort(key=lambda pair: pair[1].outcome == NOT_RUN)
        for step, verdict in red:
            missing = "was not run: " if verdict.outcome == NOT_RUN else ""
            return f"{step.name}: {missing}{verdict.why}"
        return ""


@dataclass(frozen=True, slots=True)
class LaneDifference:
    """Something in which a cell with real programs differs from the emulated one, at the first step that
    shows it."""

    step: str
    kind: str  # result, object, event, metric
    about: str
    real: str
    emulated: str

    def __str__(self) -> str:
        about = f" {self.about}" if self.about else ""
        return f"{self.step}: {self.kind}{about}: real: {self.real}; emulated: {self.emulated}"


@dataclass(frozen=True, slots=True)
class SideBySide:
    emulated: CellResult
    differences: Sequence[LaneDifference]
