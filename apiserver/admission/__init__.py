"""Admits, changes or refuses writes by the policy of the cluster, rather than that of the kind.

A plugin is one class in one module; `apiserver.admission.chain` lists them in upstream's order. A mutating
plugin may be called several times for one write (after a conflict), so it must be safe to repeat.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from kubeskew.apimachinery.errors import StatusError, forbidden
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.caching.offload import offload
from kubeskew.apiserver.user import User

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


@dataclass(slots=True)
class Reinvocation:
    """Holds what the mutating plugins of one write leave each other for a second round
    (admission/reinvocation.go).

    A plugin that calls out asks for the round by `wanted`; `again` says that this is it. Each keeps its own
    notes in `notes`, by its name.
    """

    wanted: bool = False
    again: bool = False
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Attributes:
    """Holds a write as admission sees it. `resource` is in the hub version, and so are `object` and `old`.

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
        """Returns the 403 of a plugin that does not admit this."""
        metadata = (self.object or {}).get("metadata", {})
        name = self.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
        return forbidden(self.resource.group_resource, name, why)


class Plugin:
    """Admits everything. `resources` and `subresources` are what the plugin looks at; None is all."""

    operations: ClassVar[frozenset[str]] = frozenset({CREATE})
    resources: ClassVar[frozenset[str] | None] = None  # storage resources: `pods`, `deployments.apps`
    subresources: ClassVar[frozenset[str] | None] = frozenset({""})
    awaits: ClassVar[bool] = (
        True  # whether it may have to wait; one that never does goes beside large objects
    )

    async def admit(self, attributes: Attributes) -> None:
        """Changes `attributes.object` in place, or raises StatusError."""

    async def validate(self, attributes: Attributes) -> None:
        """Raises StatusError if the object may not be written as it now is."""

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Decides whether the plugin looks at such a write at all."""
        return (
            operation in self.operations
            and (self.resources is None or resource.storage_resource in self.resources)
            and (self.subresources is None or subresource in self.subresources)
        )


Step = Callable[[Attributes], Awaitable[None]]


class AdmissionChain:
    """Holds the plugins of a server, in order."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self._admitting = _AdmissionStep(
            [(plugin, plugin.admit) for plugin in plugins if type(plugin).admit is not Plugin.admit]
        )
        self._validating = _AdmissionStep(
            [(plugin, plugin.validate) for plugin in plugins if type(plugin).validate is not Plugin.validate]
        )

    async def admit(self, attributes: Attributes) -> None:
        await self._admitting.run(attributes)
        if attributes.reinvocation.wanted:
            attributes.reinvocation.again = True
            await self._admitting.run(attributes)

    async def validate(self, attributes: Attributes) -> None:
        await self._validating.run(attributes)


class _AdmissionStep:
    """Runs one step of the plugins, in order; of those only that look at such a write."""

    def __init__(self, steps: Sequence[tuple[Plugin, Step]]) -> None:
        self._steps = steps
        self._concerned: dict[tuple[str, str, str], tuple[Step, ...]] = {}

    async def run(self, attributes: Attributes) -> None:
        like = attributes.operation, attributes.resource.storage_resource, attributes.subresource
        concerned = self._concerned.get(like)
        if concerned is None:
            operation, _, subresource = like
            concerned = self._concerned[like] = tuple(
                step if plugin.awaits else partial(_aside, step)
                for plugin, step in self._steps
                if plugin.handles(operation, attributes.resource, subresource)
            )
        for step in concerned:
            await step(attributes)


async def _aside(step: Step, attributes: Attributes) -> None:
    await offload(attributes.size, lambda: _finished(step(attributes)))


def _finished(step: Awaitable[None]) -> None:
    """Runs a coroutine that never waits to its end."""
    try:
        next(step.__await__())
    except StopIteration:
        return
    raise AssertionError("a plugin waits that says it does not")
