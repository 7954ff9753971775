"""Admits, changes or refuses writes by the policy of the cluster, rather than that of the kind.

A plugin is one class in one module; `apiserver.admission.chain` lists them in upstream's order. A mutating
plugin may be called several times for one write (after a conflict), so it must be safe to repeat.
"""

import types
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

from kubeskew.apimachinery.clock import Clock, SystemClock
from kubeskew.apimachinery.errors import StatusError, forbidden
from kubeskew.apimachinery.metrics.series import HistogramSeries, unseen_families
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.caching.offload import LARGE, offload
from kubeskew.apiserver.metrics import AdmissionMetrics, StepSeries
from kubeskew.apiserver.user import User

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


@dataclass(slots=True)
class Reinvocation:
    """Mutating plugins of one write leave each other notes for a second round (admission/reinvocation.go).

    A plugin that calls out asks for the round by `wanted`; `again` says that this is it. Each plugin keeps
    its own notes in `notes`, by its name.
    """

    wanted: bool = False
    again: bool = False
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Attributes:
    """A write as admission sees it: `resource`, `object` and `old` are in the hub version.

    `object` is None for a delete, `old` for a create.
    """

    operation: str
    resource: Resource
    subresource: str
    namespace: str
    name: str
    object: Object | None
    old: Object | None
    user: User
    dry_run: bool = False
    requested: Resource | None = None  # in the version that the client speaks; None: as `resource`
    options: Object = field(default_factory=dict)  # CreateOptions, PatchOptions, …, as the client gave them
    warnings: list[str] = field(default_factory=list)  # for the client, as Warning headers
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit event
    reinvocation: Reinvocation = field(default_factory=Reinvocation)
    size: int = 0  # of the request's body, in bytes
    collection: bool = False  # one of many that are deleted: the request itself names none

    def refuse(self, why: str) -> StatusError:
        """The error is a 403; it names the object by name or generateName, or as `Unknown`."""
        metadata = (self.object or {}).get("metadata", {})
        name = self.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
        return forbidden(self.resource.group_resource, name, why)


class Plugin:
    """The base class admits everything. A plugin looks at its `resources` and `subresources`; None is all."""

    operations: ClassVar[frozenset[str]] = frozenset({CREATE})
    resources: ClassVar[frozenset[str] | None] = None  # storage resources: `pods`, `deployments.apps`
    subresources: ClassVar[frozenset[str] | None] = frozenset({""})
    awaits: ClassVar[bool] = (
        True  # whether it may have to wait; one that never does runs in a thread for large objects
    )

    waits: ClassVar[bool] = False  # whether it may wait for others: only such a one takes measurable time
    name: ClassVar[str]  # in metrics; empty for what is no plugin upstream

    def __init_subclass__(cls) -> None:
        cls.name = vars(cls).get("name", cls.__name__)

    async def admit(self, attributes: Attributes) -> None:
        """Changes `attributes.object` in place, or raises StatusError."""

    async def validate(self, attributes: Attributes) -> None:
        """Raises StatusError if the object may not be written as it now is."""

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        return (
            operation in self.operations
            and (self.resources is None or resource.storage_resource in self.resources)
            and (self.subresources is None or subresource in self.subresources)
        )


Step = Callable[[Attributes], Awaitable[None]]


class AdmissionChain:
    """Runs the plugins in order; the mutating ones run a second time if one of them asks for it."""

    def __init__(
        self, plugins: Sequence[Plugin], metrics: AdmissionMetrics | None = None, clock: Clock | None = None
    ) -> None:
        meter = _Meter(metrics or AdmissionMetrics(unseen_families()), (clock or SystemClock()).monotonic)
        self._admitting = _AdmissionStep(
            "admit",
            [(plugin, plugin.admit) for plugin in plugins if type(plugin).admit is not Plugin.admit],
            meter,
        )
        self._validating = _AdmissionStep(
            "validate",
            [(plugin, plugin.validate) for plugin in plugins if type(plugin).validate is not Plugin.validate],
            meter,
        )

    async def admit(self, attributes: Attributes) -> None:
        await self._admitting.run(attributes)
        if attributes.reinvocation.wanted:
            attributes.reinvocation.again = True
            await self._admitting.run(attributes)

    async def validate(self, attributes: Attributes) -> None:
        await self._validating.run(attributes)


class _Meter(NamedTuple):
    metrics: AdmissionMetrics
    now: Callable[[], float]


class _Concerned(NamedTuple):
    """Plugins that look at one kind of write, each with its timer; `admitted` times all of them together."""

    steps: tuple[tuple[Step, str, bool, HistogramSeries], ...]
    of_large: tuple[tuple[Step, str, bool, HistogramSeries], ...]  # the same for large objects
    admitted: StepSeries


class _AdmissionStep:
    """Runs one step of those plugins, in order, that look at the write.

    A plugin that has not waited has taken no time: the clock is read only after those that have.
    """

    def __init__(self, kind: str, steps: Sequence[tuple[Plugin, Step]], meter: _Meter) -> None:
        self._kind = kind
        self._steps = steps
        self._metrics, self._now = meter
        self._concerned: dict[tuple[str, str, str], _Concerned] = {}

    async def run(self, attributes: Attributes) -> None:
        like = attributes.operation, attributes.resource.storage_resource, attributes.subresource
        concerned = self._concerned.get(like)
        if concerned is None:
            concerned = self._concerned[like] = self._find(attributes)
        now, refusing = self._now, ""
        begun = before = now()
        steps = concerned.steps if attributes.size <= LARGE else concerned.of_large
        try:
            for step, name, waits, timed in steps:
                refusing = name
                if not waits:
                    await step(attributes)
                    timed.counts[0] += 1
                    continue
                work = step(attributes).__await__()
                try:
                    first = next(work)
                except StopIteration:
                    timed.counts[0] += 1
                    continue
                await _rest(work, first)
                after = now()
                timed.observe(after - before)
                before = after
        except StatusError:
            self._rejected(refusing, attributes.operation, before - begun, now() - before)
            raise
        concerned.admitted.observe(before - begun)

    def _find(self, attributes: Attributes) -> _Concerned:
        operation, resource, kind = attributes.operation, attributes.resource, self._kind
        steps, of_large = [], []
        for plugin, step in self._steps:
            if plugin.handles(operation, resource, attributes.subresource):
                timed = self._metrics.plugin(plugin.name, kind, operation)
                steps.append((step, plugin.name, plugin.waits, timed))
                large_step = step if plugin.awaits else partial(_in_thread, step)
                of_large.append((large_step, plugin.name, plugin.waits or not plugin.awaits, timed))
        return _Concerned(tuple(steps), tuple(of_large), self._metrics.step(kind, operation))

    def _rejected(self, name: str, operation: str, before: float, seconds: float) -> None:
        """Records the time of a refusal; what is no plugin upstream has no name, and no metrics."""
        if name:
            self._metrics.plugin(name, self._kind, operation, rejected=True).observe(seconds)
            self._metrics.step(self._kind, operation, rejected=True).observe(before + seconds)


@types.coroutine
def _rest(work: Generator[Any, Any, None], wanted: Any) -> Generator[Any, Any, None]:
    """Drives `work` to its end; it has already yielded `wanted`."""
    while True:
        try:
            yield wanted
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:
            try:
                wanted = work.throw(error)
            except StopIteration:
                return
        else:
            try:
                wanted = work.send(None)
            except StopIteration:
                return


async def _in_thread(step: Step, attributes: Attributes) -> None:
    await offload(attributes.size, lambda: _finished(step(attributes)))


def _finished(step: Awaitable[None]) -> None:
    """Runs a coroutine to its end without an event loop; AssertionError if it waits."""
    try:
        next(step.__await__())
    except StopIteration:
        return
    raise AssertionError("a plugin waits that says it does not")
