"""Scenarios as data, not yet bound to a cell's parameters. `loader.py` reads files."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kubeskew.apimachinery.known_bugs import KnownBugs
from kubeskew.apimachinery.versions import Version
from kubeskew.conformance.bindings import bind, evaluate, names_in
from kubeskew.conformance.chainsaw import bound_below
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import OPERATIONS, RESULT_NAMES
from kubeskew.conformance.invariants.findings import KnownFinding
from kubeskew.conformance.programs import Programs

RUN_KINDS = tuple(OPERATIONS)
_LONGEST_NAMESPACE = 63
BRANCH = "branch"  # bound in every branch of a fork to its name
INVARIANTS = "invariants"  # marks' name for the judgement behind all steps
AT_REST = "invariants at rest"  # the same of what explored runs alone are judged by
JUDGED = (INVARIANTS, AT_REST)
NAMESPACE = "namespace"  # bound in every cell to the namespace of the scenario's objects


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of a `try` list. `where` names it in messages."""

    kind: str
    body: Mapping[str, Any]
    where: str
    description: str = ""
    continue_on_error: bool = False  # its failure fails the cell, but what follows runs
    user: Mapping[str, Any] | None = None  # as whom: `{user, group, extra}`; else as the administrator
    through: str = ""  # by which context of the kubeconfig; else by the current one

    @property
    def title(self) -> str:
        return self.description or self.kind

    @property
    def about(self) -> str:
        """The text has kind and name as far as the file does: `Pod newcomer`."""
        resource = self.body.get("resource")  # a fault's is a name
        body = (resource if isinstance(resource, Mapping) else None) or self.body.get("ref") or self.body
        metadata = body.get("metadata") or body
        known = body.get("kind"), metadata.get("name"), body.get("component"), body.get("node")
        return " ".join(text for text in known if isinstance(text, str))

    @property
    def bindings(self) -> Mapping[str, Any]:
        return {entry["name"]: entry["value"] for entry in self.body.get("bindings") or []}

    @property
    def outputs(self) -> Sequence[str]:
        return [output["name"] for output in self.body.get("outputs") or []]

    def names(self) -> Iterator[str]:
        """Names that the operation binds itself are left out; `$error` of a check is no binding."""
        own = self.bindings
        for key, value in self.body.items():
            results = RESULT_NAMES.get((self.kind, key), ())
            below = {*bound_below(value), *results}
            if key == "outputs":  # each may use those before it
                below.update(self.outputs)
            if key != "bindings":
                below.update(own)
            yield from (name for name in names_in(value) if name not in below)
        yield from names_in([self.user, self.through])


@dataclass(frozen=True, slots=True)
class Step:
    """Named operations, run in order until one fails.

    Then `catch`; in any case `finally_`; at the end of the cell `cleanup`. `needs` names steps without whose
    success it makes no sense. `base` is its name in the file, where a `forEach` repeats it.
    """

    name: str
    operations: tuple[Operation, ...]
    catch: tuple[Operation, ...] = ()
    finally_: tuple[Operation, ...] = ()
    cleanup: tuple[Operation, ...] = ()
    bindings: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    base: str = ""
    loop: Mapping[str, Any] = field(default_factory=dict)  # by name, what it is repeated for this time
    branch: str = ""  # of a forked cluster, that it is run in
    timeouts: Mapping[str, float] = field(default_factory=dict)  # in seconds, where they are others

    def catching(self, catch: tuple[Operation, ...]) -> "Step":
        return replace(self, catch=(*catch, *self.catch))

    @property
    def compares(self) -> bool:
        return any(operation.kind == "compare" for operation in self.operations)

    def all_operations(self) -> Iterator[Operation]:
        yield from (*self.operations, *self.catch, *self.finally_, *self.cleanup)

    def steps(self) -> Iterator["Step"]:
        yield self

    def repeated(self, bindings: Mapping[str, Any]) -> Iterator["Step"]:
        yield self

    def required_names(self) -> Iterator[str]:
        """Names that the step binds itself are left out."""
        bound = {*self.bindings, *self.loop}
        yield from (name for name in names_in(list(self.bindings.values())) if name not in self.loop)
        for operation in self.operations:
            yield from (name for name in operation.names() if name not in bound)
            bound.update(operation.outputs)

    def is_called(self, name: str) -> bool:
        """A mark or a need may name a repeated step by its name in the file."""
        return name in {self.name, self.base}


@dataclass(frozen=True, slots=True)
class Repeat:
    """Steps that are run for each item of a list: `forEach: {hop: ($versions.hops)}`."""

    name: str  # to which the item is bound
    items: str  # the expression of the list
    members: tuple["Step | Repeat", ...]
    where: str

    def catching(self, catch: tuple[Operation, ...]) -> "Repeat":
        return replace(self, members=tuple(member.catching(catch) for member in self.members))

    def steps(self) -> Iterator[Step]:
        for member in self.members:
            yield from member.steps()

    def repeated(self, bindings: Mapping[str, Any]) -> Iterator[Step]:
        """Steps are named after their item. Raises ScenarioError unless there is a list of items."""
        items = evaluate(self.items, bindings)
        if not isinstance(items, list):
            raise ScenarioError(f"{self.where}.forEach.{self.name}: expected a list, found {items!r}")
        labels: list[str] = []
        for item in items:
            labels.append(value_name(item))
            count = labels.count(labels[-1])
            label = labels[-1] + (f" #{count}" if count > 1 else "")
            for member in self.members:
                for step in member.repeated({**bindings, self.name: item}):
                    name, loop = f"{label}: {step.name}", {self.name: item, **step.loop}
                    yield replace(step, name=name, base=step.base or step.name, loop=loop)


@dataclass(frozen=True, slots=True)
class Branch:
    """One future of a forked cluster: its bindings, and its first operations."""

    name: str
    operations: tuple[Operation, ...]
    bindings: Mapping[str, Any]

    def begins(self, bindings: Mapping[str, Any]) -> Step:
        """The first step of a branch. Raises ScenarioError for an expression that has no value."""
        own = {name: bind(value, bindings) for name, value in self.bindings.items()}
        name = f"{self.name}: begins"
        return Step(name, self.operations, base=name, loop={BRANCH: self.name, **own}, branch=self.name)


@dataclass(frozen=True, slots=True)
class Fork:
    """A step that forks the cluster: those behind it are run in every branch, up to each that compares."""

    step: Step
    branches: tuple[Branch, ...]
    where: str

    def catching(self, catch: tuple[Operation, ...]) -> "Fork":
        return replace(self, step=self.step.catching(catch))

    def steps(self) -> Iterator[Step]:
        yield self.step
        for branch in self.branches:
            yield Step(f"{branch.name}: begins", branch.operations)

    def repeated(self, bindings: Mapping[str, Any]) -> Iterator[Step]:
        yield self.step

    def futures(self, parts: Sequence["Part"], bindings: Mapping[str, Any]) -> Iterator[Step]:
        """Branches come one after the other, up to the next step that compares them."""
        beginnings = [branch.begins(bindings) for branch in self.branches]
        for at, (segment, comparison) in enumerate(_segments(parts)):
            for first in beginnings:
                if at == 0:
                    yield first
                for part in segment:
                    for step in part.repeated({**bindings, **first.loop}):
                        name, base = f"{first.branch}: {step.name}", step.base or step.name
                        loop = {**first.loop, **step.loop}
                        yield replace(step, name=name, base=base, loop=loop, branch=first.branch)
            yield from comparison


Part = Step | Repeat | Fork


def _segments(parts: Sequence[Part]) -> Iterator[tuple[Sequence[Part], Sequence[Step]]]:
    """Each segment ends with the steps that compare; the last one may have none."""
    segment: list[Part] = []
    for part in parts:
        if isinstance(part, Step) and part.compares:
            yield segment, [part]
            segment = []
        else:
            segment.append(part)
    yield segment, []


@dataclass(frozen=True, slots=True)
class Parameter:
    """One dimension of the matrix: a name and the values it takes.

    Where the values are all subsets of some members (`subsets: [apiserver, scheduler]`), these are `members`.
    """

    name: str
    values: tuple[Any, ...]
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpectedFailure:
    """Steps that fail as upstream fails, in the cells whose parameters satisfy `when` (an expression).

    `found` is a regular expression that is searched in what a failed operation of the step found; `source`
    says where upstream's failure can be read of.
    """

    when: str
    steps: tuple[str, ...]
    reason: str
    found: str
    source: str = ""
    bug: str = ""  # the known bug that it shows; then only releases that have it fail
    at: str = ""  # the expression of that release
    finding: KnownFinding | None = None  # has the reason and source, for several scenarios

    def applies(self, bindings: Mapping[str, Any], bugs: Mapping[str, bool]) -> bool:
        """`bugs` are the known bugs switched in the cell. Raises ScenarioError."""
        if not evaluate(self.when, bindings):
            return False
        if not self.bug:
            return True
        try:
            version = Version.parse(str(evaluate(self.at, bindings)))
        except ValueError as error:
            raise ScenarioError(f"expectedFailures: at: {self.at}: {error}") from error
        return KnownBugs(version, bugs).present(self.bug)

    def matched(self, found: str) -> str:
        """The text is empty for a failure that does not fit this mark."""
        if self.finding is not None and not self.finding.fits(found):
            return ""
        match = re.search(self.found, found)
        return match[0] if match else ""


@dataclass(frozen=True, slots=True)
class Exemption:
    """Steps that need not be run, for want of the result of an earlier step, and the reason."""

    when: str
    steps: tuple[str, ...]
    reason: str

    def applies(self, bindings: Mapping[str, Any], bugs: Mapping[str, bool]) -> bool:
        return bool(evaluate(self.when, bindings))


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that is not yet bound to a cell's parameters. `steps` has repetitions, too."""

    name: str
    parts: tuple[Part, ...]
    description: str = ""
    cluster: Any = None  # a mapping, or an expression that gives one; None if the file has none
    parameters: tuple[Parameter, ...] = ()
    bindings: Mapping[str, Any] = field(default_factory=dict)
    timeouts: Mapping[str, float] = field(default_factory=dict)
    expected_failures: tuple[ExpectedFailure, ...] = ()
    exemptions: tuple[Exemption, ...] = ()
    baseline: Mapping[str, str] = field(
        default_factory=dict
    )  # parameter → the value the others are held against
    source: str = ""  # the file
    bugs: Mapping[str, bool] = field(default_factory=dict)  # known bugs that the command line switches
    programs: Programs | None = None  # real ones that the command line puts into slots
    namespace: str = ""  # of its objects; one that is named after it if it is empty
    is_chainsaw: bool = False  # a test without a header, which is run as Chainsaw runs it
    concurrent: bool = True  # it may run next to others on one cluster
    keeps_objects: bool = False  # its objects stay on a cluster that is not ours

    @property
    def steps(self) -> tuple[Step, ...]:
        """Repeated steps come once."""
        return tuple(step for part in self.parts for step in part.steps())

    @property
    def needs_cluster(self) -> bool:
        kinds = [operation.kind for step in self.steps for operation in step.all_operations()]
        return any(OPERATIONS[kind].of_cluster for kind in kinds)

    def cells(self) -> Iterator["Cell"]:
        for values in itertools.product(*(parameter.values for parameter in self.parameters)):
            chosen = {p.name: value for p, value in zip(self.parameters, values, strict=True)}
            yield Cell(self, chosen)


@dataclass(frozen=True, slots=True)
class Cell:
    """A scenario with one value for each parameter."""

    scenario: Scenario
    parameters: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self._named({})

    @property
    def baseline(self) -> str | None:
        """The cell that this one is compared with is the same but for the baseline's parameters."""
        if not self.scenario.baseline:
            return None
        name = self._named(self.scenario.baseline)
        return None if name == self.name else name

    def _named(self, instead: Mapping[str, str]) -> str:
        labels = [instead.get(name, value_name(value)) for name, value in self.parameters.items()]
        return "/".join([self.scenario.name, *labels])

    def bindings(self) -> dict[str, Any]:
        namespace = self.scenario.namespace or namespace_of(self.scenario.name)
        bindings = {NAMESPACE: namespace, **self.parameters}
        for name, value in self.scenario.bindings.items():
            bindings[name] = bind(value, bindings)
        return bindings

    def cluster(self) -> dict[str, Any]:
        """The mapping is a cluster file's value. Raises ScenarioError if it is no mapping."""
        cluster = bind(self.scenario.cluster or {}, self.bindings())
        if not isinstance(cluster, dict):
            raise ScenarioError(f"{self.scenario.source}: cluster: expected a mapping, found {cluster!r}")
        if self.scenario.programs is not None:
            cluster = {**cluster, **self.scenario.programs.as_cluster()}
        if not self.scenario.bugs:
            return cluster
        return {**cluster, "bugs": {**(cluster.get("bugs") or {}), **self.scenario.bugs}}

    def emulated(self) -> "Cell | None":
        """The same cell without real programs, if it is to be run both ways."""
        programs = self.scenario.programs
        if programs is None or not programs.both_ways:
            return None
        return replace(self, scenario=replace(self.scenario, programs=None))

    def steps(self) -> list[Step]:
        """Steps of a `forEach` or behind a fork come as often as they are repeated."""
        bindings, parts, found = self.bindings(), self.scenario.parts, list[Step]()
        for index, part in enumerate(parts):
            found += part.repeated(bindings)
            if isinstance(part, Fork):
                return [*found, *part.futures(parts[index + 1 :], bindings)]
        return found

    def uses(self, operation: str) -> bool:
        steps = self.steps()
        return any(each.kind == operation for step in steps for each in step.all_operations())

    def expected_failures(self) -> Mapping[str, Sequence[ExpectedFailure]]:
        """Marks by step; those of invariants stand under INVARIANTS and AT_REST."""
        found = self._of_steps(self.scenario.expected_failures)
        for name in JUDGED:
            marks = [mark for mark in self.scenario.expected_failures if name in mark.steps]
            bugs = (self.cluster().get("bugs") or {}) if marks else {}
            if broken := [mark for mark in marks if mark.applies(self.parameters, bugs)]:
                found[name] = broken
        return found

    def exemptions(self) -> Mapping[str, Sequence[Exemption]]:
        return self._of_steps(self.scenario.exemptions)

    def _of_steps(self, entries: Sequence[Any]) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        bugs = (self.cluster().get("bugs") or {}) if entries else {}
        for step in self.steps() if entries else ():
            bindings = {**self.parameters, **step.loop}
            for entry in entries:
                if any(step.is_called(name) for name in entry.steps) and entry.applies(bindings, bugs):
                    found.setdefault(step.name, []).append(entry)
        return found


def value_name(value: Any) -> str:
    """A value is named by its `name`, or by itself."""
    return str(value["name"] if isinstance(value, Mapping) and "name" in value else value)


def namespace_of(name: str) -> str:
    """Characters that a namespace's name cannot have become dashes; at most 63 are kept."""
    return re.sub("[^a-z0-9]+", "-", name.lower())[:_LONGEST_NAMESPACE].strip("-") or "scenario"
