"""Lists the operations of each path, independent of the document's dialect.

Paths, ids, actions and parameters: upstream's published OpenAPI of 1.28 to 1.36.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.resources import GroupVersionKind, Resource, ResourceTable, Subresource
from kubeskew.apiserver.openapi.rendering import definition_name

# Query parameters: name → (type, first minor that has it).
QUERY = {
    "allowWatchBookmarks": ("boolean", 0),
    "continue": ("string", 0),
    "dryRun": ("string", 0),
    "fieldManager": ("string", 0),
    "fieldSelector": ("string", 0),
    "fieldValidation": ("string", 0),
    "force": ("boolean", 0),
    "gracePeriodSeconds": ("integer", 0),
    "ignoreStoreReadErrorWithClusterBreakingPotential": ("boolean", 32),
    "labelSelector": ("string", 0),
    "limit": ("integer", 0),
    "orphanDependents": ("boolean", 0),
    "pretty": ("string", 0),
    "propagationPolicy": ("string", 0),
    "resourceVersion": ("string", 0),
    "resourceVersionMatch": ("string", 0),
    "sendInitialEvents": ("boolean", 27),
    "shardSelector": ("string", 36),
    "timeoutSeconds": ("integer", 0),
    "watch": ("boolean", 0),
}
_SELECT = (
    "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch",
    "sendInitialEvents", "shardSelector", "timeoutSeconds",
)  # fmt: skip
_LIST = ("allowWatchBookmarks", *_SELECT, "watch")
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = (
    "dryRun", "gracePeriodSeconds", "ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents",
    "propagationPolicy",
)  # fmt: skip

PATCH_BODY = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
DELETE_BODY = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
_STRATEGIC = "application/strategic-merge-patch+json"
_CBOR_APPLY = "application/apply-patch+cbor"
_CBOR_APPLY_SINCE = 32


@dataclass(frozen=True, slots=True)
class Operation:
    """Holds one method of one path."""

    path: str
    method: str  # get put post delete patch head options
    action: str  # list get post put patch delete deletecollection connect
    id: str
    tag: str
    gvk: GroupVersionKind
    query: tuple[str, ...] = ()
    body: str = ""  # definition, or none
    answer: str = ""  # definition; empty is a plain string
    codes: tuple[int, ...] = (200,)
    consumes: tuple[str, ...] = ("*/*",)

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """Returns the parameters that the path leaves open: `name`, `namespace`."""
        return tuple(name for name in ("name", "namespace") if f"{{{name}}}" in self.path)


def base_path(group: str, version: str) -> str:
    """Returns `/api/v1` or `/apis/GROUP/VERSION`."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def all_operations(table: ResourceTable, minor: int) -> Iterator[Operation]:
    """Yields the operations of everything served."""
    for group, versions in table.groups():
        for version in versions:
            yield from operations(table, group, version, minor)


def operations(table: ResourceTable, group: str, version: str, minor: int) -> Iterator[Operation]:
    """Yields the operations of one group and version, resource by resource."""
    for resource in table.resources(group, version):
        paths = _Paths(resource, minor)
        yield from paths.of_collection()
        yield from paths.of_item()
        for subresource in resource.subresources.values():
            yield from paths.of_subresource(subresource)


def _title(text: str) -> str:
    return text[:1].upper() + text[1:]


class _Paths:
    """Lists the paths of one resource."""

    def __init__(self, resource: Resource, minor: int) -> None:
        self.resource = resource
        self.minor = minor
        self.group = resource.group.removesuffix(".k8s.io") or "core"
        label = "".join(_title(part) for part in self.group.split("."))
        self.group_version = label + _title(resource.version)
        self.tag = f"{label[:1].lower()}{label[1:]}_{resource.version}"
        self.base = base_path(resource.group, resource.version)
        scope = "/namespaces/{namespace}" if resource.namespaced else ""
        self.collection = f"{self.base}{scope}/{resource.plural}"
        self.item = f"{self.collection}/{{name}}"
        self.kind = definition_name(resource.group, resource.version, resource.kind, resource.schema)
        patches = ["application/json-patch+json", "application/merge-patch+json"]
        patches += [] if resource.custom else [_STRATEGIC]
        patches += ["application/apply-patch+yaml"]
        patches += [_CBOR_APPLY] if minor >= _CBOR_APPLY_SINCE and not resource.custom else []
        self.patches = tuple(patches)
        self.bodies = ("application/json", "application/yaml") if resource.custom else ("*/*",)

    def _make(self, path: str, method: str, action: str, verb: str, **more: Any) -> Operation:
        namespaced = "Namespaced" if "{namespace}" in path else ""
        tail = str(more.pop("tail", ""))
        query = tuple(name for name in more.pop("query", ()) if QUERY[name][1] <= self.minor)
        return Operation(
            path,
            method,
            action,
            f"{verb}{namespaced}{self.resource.kind}{tail}",
            self.tag,
            **{"gvk": self.resource.gvk, "query": query, "consumes": self.bodies, **more},
        )

    def of_collection(self) -> Iterator[Operation]:
        verbs, label = self.resource.verbs, self.group_version
        listed = f"{self.kind}List"
        if "list" in verbs:
            yield self._make(self.collection, "get", "list", f"list{label}", query=_LIST, answer=listed)
        if "create" in verbs:
            yield self._make(
                self.collection, "post", "post", f"create{label}",
                query=_WRITE, body=self.kind, answer=self.kind, codes=(200, 201, 202),
            )  # fmt: skip
        if "deletecollection" in verbs:
            how: dict[str, Any] = {"query": tuple(sorted((*_DELETE, *_SELECT))), "body": DELETE_BODY}
            how = (
                {"query": _LIST} if self.resource.custom else how
            )  # upstream lists no other parameters for them
            action, verb = "deletecollection", f"delete{label}Collection"
            yield self._make(self.collection, "delete", action, verb, answer=STATUS, **how)
        if "list" in verbs and self.resource.namespaced:
            path = f"{self.base}/{self.resource.plural}"
            yield self._make(
                path, "get", "list", f"list{label}", query=_LIST, answer=listed, tail="ForAllNamespaces"
            )

    def of_item(self) -> Iterator[Operation]:
        verbs, label = self.resource.verbs, self.group_version
        yield from self._read_write(self.item, verbs, self.kind, self.resource.gvk, "")
        if "delete" in verbs:
            yield self._make(
                self.item, "delete", "delete", f"delete{label}",
                query=_DELETE, body=DELETE_BODY, answer=STATUS, codes=(200, 202),
            )  # fmt: skip

    def _read_write(
        self, path: str, verbs: frozenset[str], kind: str, gvk: GroupVersionKind, tail: str
    ) -> Iterator[Operation]:
        label = self.group_version
        if "get" in verbs:
            query = ("resourceVersion",) if self.resource.custom else ()
            yield self._make(path, "get", "get", f"read{label}", query=query, answer=kind, gvk=gvk, tail=tail)
        if "update" in verbs:
            yield self._make(
                path, "put", "put", f"replace{label}",
                query=_WRITE, body=kind, answer=kind, codes=(200, 201), gvk=gvk, tail=tail,
            )  # fmt: skip
        if "patch" in verbs:
            yield self._make(
                path, "patch", "patch", f"patch{label}",
                query=(*_WRITE, "force"), body=PATCH_BODY, answer=kind,
                codes=(200,) if self.resource.custom else (200, 201),
                consumes=self.patches, gvk=gvk, tail=tail,
            )  # fmt: skip

    def of_subresource(self, subresource: Subresource) -> Iterator[Operation]:
        path, tail, gvk = f"{self.item}/{subresource.name}", _title(subresource.name), subresource.gvk
        if gvk.kind.endswith("Options"):
            yield from self._connect(path, subresource, tail)
            return
        kind = self._body_of(gvk) if subresource.name != "log" else ""
        if "create" in subresource.verbs:
            yield self._make(
                path, "post", "post", f"create{self.group_version}",
                query=_WRITE, body=kind, answer=kind, codes=(200, 201, 202), gvk=gvk, tail=tail,
            )  # fmt: skip
        shown = self.resource.gvk if self.resource.custom else gvk  # of a Scale too
        yield from self._read_write(path, subresource.verbs, kind, shown, tail)

    def _body_of(self, gvk: GroupVersionKind) -> str:
        if gvk == self.resource.gvk:
            return self.kind
        package = gvk.group.split(".")[0] or "core"
        return f"io.k8s.api.{package}.{gvk.version}.{gvk.kind}"

    def _connect(self, path: str, subresource: Subresource, tail: str) -> Iterator[Operation]:
        methods = {"get": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
        for verb in sorted(subresource.verbs):
            method = methods[verb]
            yield self._make(
                path, method, "connect", f"connect{self.group_version}{_title(method)}",
                gvk=subresource.gvk, tail=tail,
            )  # fmt: skip
