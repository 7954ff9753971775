"""Describes routes: what is served at a path by a method, independent of the document's dialect.

Source: apiserver pkg/endpoints/openapi/openapi.go (ids and tags) and pkg/endpoints/installer.go, 1.36.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kubeskew.apimachinery.catalogue.types import META
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apiserver.openapi.parameters import Parameter

DELETE_OPTIONS = META + "DeleteOptions"
PATCH = META + "Patch"
STATUS = META + "Status"
WATCH_EVENT = META + "WatchEvent"
STRING = ""  # what a route answers that has no definition

_VERBS = (
    "get", "log", "read", "replace", "patch", "delete", "watch", "connect", "proxy", "list", "create",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Route:
    """Holds one method of one path. `action` and `gvk` are of resources alone."""

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
    """Yields each path with its routes, and the parameters that all of them have, which it states once."""
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
    """Returns `/api/v1` or `/apis/GROUP/VERSION`."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def identify(operation: str, path: str) -> tuple[str, tuple[str, ...]]:
    """Returns the id and the tags of an operation, made of its name and of the path's group and version."""
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
    """Returns a text without what no identifier may have; what follows such a character is a capital."""
    made = ""
    for position, character in enumerate(text):
        if character.isalpha() or character == "_" or (position and character.isdigit()):
            made += character.upper() if capital else character
            capital = False
        else:
            capital = True
    return made
