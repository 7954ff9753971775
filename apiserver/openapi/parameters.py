"""Lists the parameters that requests may have, by what is done.

Source: apiserver pkg/endpoints/installer.go (AddObjectParams), meta/v1 and core/v1 types.go, 1.36.
"""

from typing import NamedTuple

from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.features import DocumentFeatures
from kubeskew.apiserver.openapi.facts import facts_of

_TYPES = {Kind.BOOLEAN: "boolean", Kind.INTEGER: "integer"}
_BOOLEANS = frozenset(
    {
        "allowWatchBookmarks", "follow", "force", "ignoreStoreReadErrorWithClusterBreakingPotential",
        "insecureSkipTLSVerifyBackend", "orphanDependents", "previous", "sendInitialEvents",
        "timestamps", "watch",
    }
)  # fmt: skip
_INTEGERS = frozenset(
    {"gracePeriodSeconds", "limit", "limitBytes", "sinceSeconds", "tailLines", "timeoutSeconds"}
)
_LIST = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
    "resourceVersionMatch", "sendInitialEvents", "shardSelector", "timeoutSeconds", "watch",
)  # fmt: skip
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_OPTIONS = {
    "ListOptions": _LIST,
    "GetOptions": ("resourceVersion",),
    "CreateOptions": _WRITE,
    "UpdateOptions": _WRITE,
    "PatchOptions": (*_WRITE, "force"),
    "DeleteOptions": (
        "dryRun", "gracePeriodSeconds", "ignoreStoreReadErrorWithClusterBreakingPotential",
        "orphanDependents", "propagationPolicy",
    ),
    "PodLogOptions": (
        "container", "follow", "insecureSkipTLSVerifyBackend", "limitBytes", "previous", "sinceSeconds",
        "stream", "tailLines", "timestamps",
    ),
}  # fmt: skip
NOT_OF_COLLECTIONS = ("allowWatchBookmarks", "watch")  # not of their deletion
_NEVER_SHARED = ("name", "dryRun", "fieldValidation")  # whose text names the kind, or that clients look for


class Parameter(NamedTuple):
    """Describes a parameter of a path or query."""

    name: str
    place: str  # path or query
    type: str
    shared: str = ""  # its name among the shared parameters of v2


class Parameters:
    """Makes the parameters of a release; each is made once, so that documents may share their forms."""

    def __init__(self, features: DocumentFeatures) -> None:
        self._ids = facts_of(features.version).shared if features.shared_parameters else {}
        later = {
            "sendInitialEvents": features.initial_events,
            "ignoreStoreReadErrorWithClusterBreakingPotential": features.store_read_errors,
            "stream": features.log_streams,
            "shardSelector": features.shard_selectors,
        }
        self._absent = frozenset(name for name, there in later.items() if not there)
        self._options: dict[str, tuple[Parameter, ...]] = {}
        self.pretty = self._make("pretty", "query", "string", "")

    def options(self, kind: str) -> tuple[Parameter, ...]:
        """Returns the query parameters that options of a kind make (`ListOptions`)."""
        found = self._options.get(kind)
        if found is None:
            names = [name for name in _OPTIONS[kind] if name not in self._absent]
            found = self._options[kind] = tuple(
                self._make(name, "query", _type_of(name), kind) for name in names
            )
        return found

    def of_schema(self, kind: str, schema: Schema) -> tuple[Parameter, ...]:
        """Returns the query parameters that a type of options makes of its fields."""
        found = self._options.get(kind)
        if found is None:
            found = self._options[kind] = tuple(
                self._make(name, "query", _TYPES.get(_scalar(field.schema), "string"), kind)
                for name, field in sorted(schema.fields.items())
                if name not in ("kind", "apiVersion")
            )
        return found

    def of_path(self, path: str) -> tuple[Parameter, ...]:
        """Returns the parameters that a path leaves open: `namespace`, `name`, `path`."""
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        return tuple(self._make(name, "path", "string", "path") for name in names)

    def body(self, definition: str) -> str:
        """Returns the name of a body among the shared parameters; none for those of kinds."""
        return self._shared("body", definition)

    def _make(self, name: str, place: str, kind: str, options: str) -> Parameter:
        shared = "" if name in _NEVER_SHARED else self._shared(name, options)
        return Parameter(name, place, kind, shared)

    def _shared(self, name: str, options: str) -> str:
        for key in (options, ""):
            found = self._ids.get(key, {}).get(name)
            if found:
                return f"{name}-{found}"
        return ""


def _type_of(name: str) -> str:
    return "boolean" if name in _BOOLEANS else "integer" if name in _INTEGERS else "string"


def _scalar(schema: Schema) -> Kind:
    """Returns the kind of a value, or of what a list holds: its elements are given one by one."""
    return schema.items.kind if schema.kind is Kind.LIST and schema.items else schema.kind
