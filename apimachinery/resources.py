"""The served resources: one `Resource` per group, version and plural, and the table that finds them.

The catalogue makes these for built-in kinds, a custom resource definition for its own. Other code knows a
kind only through a `Resource` (or a strategy registered for it).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kubeskew.apimachinery.errors import GroupKind, GroupResource
from kubeskew.apimachinery.schema import Schema

STANDARD_VERBS = frozenset(
    {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
)


class GroupVersionKind(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class GroupVersionResource(NamedTuple):
    group: str
    version: str
    resource: str


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource (`status`, `scale`, `binding`, …) with the kind of its body."""

    name: str
    gvk: GroupVersionKind
    verbs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A resource as served at one group and version."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    schema: Schema
    storage: GroupVersionKind  # in which this server writes to the log
    storage_resource: str  # `Key.resource`, the same for all versions: "pods", "deployments.apps"
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    custom: bool = False  # made by a CustomResourceDefinition
    selectable: tuple[str, ...] = ()  # labels of the selectable fields of a definition
    # Computed once from the others: every request needs them.
    gvk: GroupVersionKind = field(init=False)
    api_version: str = field(init=False)
    group_resource: GroupResource = field(init=False)
    group_kind: GroupKind = field(init=False)

    def __post_init__(self) -> None:
        gvk = GroupVersionKind(self.group, self.version, self.kind)
        found = {
            "gvk": gvk,
            "api_version": gvk.api_version,
            "group_resource": GroupResource(self.group, self.plural),
            "group_kind": GroupKind(self.group, self.kind),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"


class ResourceTable(Protocol):
    def resource(self, group: str, version: str, plural: str) -> Resource | None: ...

    def by_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """Finds registered versions that are not served, too (storage)."""
        ...

    def groups(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Served groups in discovery order, each with its versions, the preferred first."""
        ...

    def resources(self, group: str, version: str) -> Iterable[Resource]:
        """Sorted by plural."""
        ...
