"""Routes (a method of a path) and their parameters, independent of the document's dialect.

Sources: apiserver pkg/endpoints/installer.go (AddObjectParams), meta/v1 and core/v1 types.go, 1.36; apiserver
pkg/endpoints/openapi/openapi.go (ids and tags) and pkg/endpoints/installer.go, 1.36.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kubeskew.apimachinery.catalogue.types import META
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.features import DocumentFeatures
from kubeskew.apiserver.openapi.descriptions import descriptions_of
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
DELETE_OPTIONS = META + "DeleteOptions"
PATCH = META + "Patch"
STATUS = META + "Status"
WATCH_EVENT = META + "WatchEvent"
STRING = ""  # answer of a route without a definition

_VERBS = (
    "get", "log", "read", "replace", "patch", "delete", "watch", "connect", "proxy", "list", "create",
)  # fmt: skip


class Parameter(NamedTuple):
    name: str
    place: str  # path or query
    type: str
    shared: str = ""  # its name among the shared parameters of v2
    description: str = ""


class Parameters:
    """Each parameter of a release is made once, so that documents may share their forms."""

    def __init__(self, features: DocumentFeatures) -> None:
        self._ids = facts_of(features.version).shared if features.shared_parameters else {}
        self._descriptions = descriptions_of(features.version)
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
        found = self._options.get(kind)
        if found is None:
            names = [name for name in _OPTIONS[kind] if name not in self._absent]
            found = self._options[kind] = tuple(
                self._make(name, "query", _type_of(name), kind) for name in names
            )
        return found

    def of_schema(self, kind: str, schema: Schema) -> tuple[Parameter, ...]:
        """Each field of the type becomes a query parameter."""
        found = self._options.get(kind)
        if found is None:
            found = self._options[kind] = tuple(
                self._make(name, "query", _TYPES.get(_scalar(field.schema), "string"), kind)
                for name, field in sorted(schema.fields.items())
                if name not in ("kind", "apiVersion")
            )
        return found

    def of_path(self, path: str, kind: str = "") -> tuple[Parameter, ...]:
        """Braces mark parameters: `namespace`, `name`, `path`. `kind` is what the path is of."""
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        return tuple(self._make(name, "path", "string", "path", kind) for name in names)

    def body(self, definition: str) -> str:
        """Empty for the definitions of kinds, which are not shared."""
        return self._shared("body", definition)

    def _make(self, name: str, place: str, type_: str, options: str, kind: str = "") -> Parameter:
        shared = "" if name in _NEVER_SHARED else self._shared(name, options)
        return Parameter(name, place, type_, shared, self._descriptions.parameter(shared or name, kind))

    def _shared(self, name: str, options: str) -> str:
        for key in (options, ""):
            found = self._ids.get(key, {}).get(name)
            if found:
                return f"{name}-{found}"
        return ""


def _type_of(name: str) -> str:
    return "boolean" if name in _BOOLEANS else "integer" if name in _INTEGERS else "string"


def _scalar(schema: Schema) -> Kind:
    """Elements of a list are given one by one, so its kind is theirs."""
    return schema.items.kind if schema.kind is Kind.LIST and schema.items else schema.kind


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path; only routes of resources have `action` and `gvk`."""

    path: str
    method: str  # get put post delete patch head options
    operation: str  # id
    tags: tuple[str, ...]
    parameters: tuple[Parameter, ...] = ()
    consumes: tuple[str, ...] = ("*/*",)
    produces: tuple[str, ...] = ()
    answer: str = STRING  # definition
    codes: tuple[int, ...] = (200,)
    body: str = ""  # definition, or none
    body_required: bool = True
    action: str = ""  # list get post put patch delete deletecollection connect watch watchlist
    gvk: GroupVersionKind | None = None


def by_path(routes: Iterable[Route]) -> Iterator[tuple[str, list[Route], list[Parameter]]]:
    """Sorts by path; parameters that all routes of a path have are listed once."""
    paths: dict[str, list[Route]] = {}
    for route in routes:
        paths.setdefault(route.path, []).append(route)
    for path, found in sorted(paths.items()):
        first, *others = found
        common = [
            parameter for parameter in first.parameters if all(_has(route, parameter) for route in others)
        ]
        yield path, found, common


def _has(route: Route, wanted: Parameter) -> bool:
    return any(found[:2] == wanted[:2] for found in route.parameters)


def base_path(group: str, version: str) -> str:
    """The core group is at `/api/v1`, others are at `/apis/GROUP/VERSION`."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def identify(operation: str, path: str) -> tuple[str, tuple[str, ...]]:
    """Both are made of the operation's name and of the path's group and version."""
    verb = next(verb for verb in _VERBS if operation.startswith(verb))
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        parts = ["apis", "core", *parts[1:]]
    if parts[0] != "apis" or len(parts) == 1:
        return verb + _camel(operation.removeprefix(verb), capital=True), (_camel(parts[0]),)
    group = parts[1].removesuffix(".k8s.io")
    label, tag = _camel(group, capital=True), _camel(group)
    if len(parts) > 2:
        label, tag = label + _camel(parts[2], capital=True), f"{tag}_{_camel(parts[2])}"
    return verb + label + _camel(operation.removeprefix(verb), capital=True), (tag,)


def _camel(text: str, *, capital: bool = False) -> str:
    """Drops characters that identifiers cannot have; the character after each becomes a capital."""
    made = ""
    for position, character in enumerate(text):
        if character.isalpha() or character == "_" or (position and character.isdigit()):
            made += character.upper() if capital else character
            capital = False
        else:
            capital = True
    return made
