"""Resources that a tree's API server serves with everything on, from `api/discovery`, and kinds that it only
decodes.

The core group is in `api__v1.json`, the others are in `aggregated_v2.json`; upstream's
`hack/update-openapi-spec.sh` writes both.
"""

from collections.abc import Iterator
from typing import Any

from tree_sitter import Node

from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.releases.tree.go_syntax import TreeError, nodes_of, text_of
from kubeskew.releases.tree.source_tree import Package, SourceTree

Document = dict[str, Any]

CORE = "api/discovery/api__v1.json"
AGGREGATED = "api/discovery/aggregated_v2.json"
_STANDARD = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_READ_WRITE = ["get", "patch", "update"]
_INTERNAL = "k8s.io/kubernetes/pkg/apis"
_EXTERNAL = "k8s.io/api/"


def discovery(tree: SourceTree) -> Document:
    """`groupOrder` is by priority, and `resources` has a fact per resource, of this minor alone (see
    `kubeskew/releases/catalogue/resources.py`).
    """
    core, aggregated = tree.json(CORE), tree.json(AGGREGATED)
    span = f"1.{tree.minor}-1.{tree.minor}"
    try:
        resources = list(_of_core(core))
    except (KeyError, TypeError, AttributeError) as error:
        raise _no_document(tree, CORE, error) from None
    try:
        groups = [item["metadata"]["name"] for item in aggregated["items"]]
        for item in aggregated["items"]:
            resources += _of_group(item)
    except (KeyError, TypeError, AttributeError) as error:
        raise _no_document(tree, AGGREGATED, error) from None
    return {"groupOrder": groups, "resources": [{**fact, "minors": span} for fact in resources]}


def _no_document(tree: SourceTree, path: str, error: Exception) -> TreeError:
    reason = f"{type(error).__name__}: {error}"
    return TreeError(
        f"{tree.root / path}: this is no discovery document of Kubernetes ({reason}); "
        "run hack/update-openapi-spec.sh and import again"
    )


def _of_core(document: Document) -> Iterator[Document]:
    """The older shape, in which a subresource is an entry of its own."""
    entries = {entry["name"]: entry for entry in document["resources"]}
    subresources: dict[str, dict[str, Document]] = {}
    for name, entry in sorted(entries.items()):
        resource, _, subresource = name.partition("/")
        if subresource:
            gvk = GroupVersionKind(entry.get("group", ""), entry.get("version", "v1"), entry["kind"])
            subresources.setdefault(resource, {})[subresource] = _subresource(gvk, ("", "v1"), entry["verbs"])
    for name, entry in sorted(entries.items()):
        if "/" not in name:
            singular, namespaced = entry["singularName"], entry["namespaced"]
            yield _resource(
                "", "v1", name, entry["kind"], singular, namespaced, entry, subresources.get(name, {})
            )


def _of_group(item: Document) -> Iterator[Document]:
    group = item["metadata"]["name"]
    for served in item["versions"]:
        version = served["version"]
        for entry in sorted(served["resources"], key=lambda entry: str(entry["resource"])):
            subresources = {}
            for below in entry.get("subresources", ()):
                kind = below["responseKind"]
                gvk = GroupVersionKind(kind["group"] or group, kind["version"] or version, kind["kind"])
                subresources[below["subresource"]] = _subresource(gvk, (group, version), below["verbs"])
            yield _resource(
                group, version, entry["resource"], entry["responseKind"]["kind"], entry["singularResource"],
                entry["scope"] == "Namespaced", entry, subresources,
            )  # fmt: skip


def _resource(
    group: str, version: str, resource: str, kind: str, singular: str, namespaced: bool, entry: Document,
    subresources: dict[str, Document],
) -> Document:  # fmt: skip
    verbs = sorted(entry["verbs"])
    _check_names(group, version, resource, kind, singular, *verbs)
    fact: Document = {
        "group": group, "version": version, "resource": resource, "kind": kind, "singular": singular,
        "namespaced": namespaced, "verbs": "std" if verbs == _STANDARD else verbs,
    }  # fmt: skip
    for key in ("shortNames", "categories"):
        if entry.get(key):
            _check_names(*entry[key])
            fact[key] = entry[key]
    return fact | ({"subresources": dict(sorted(subresources.items()))} if subresources else {})


def _subresource(gvk: GroupVersionKind, of: tuple[str, str], verbs: list[str]) -> Document:
    """Group and version are written where they are not the resource's."""
    group, version, kind = gvk
    _check_names(*gvk, *verbs)
    made: Document = {"kind": kind, "verbs": "gpu" if sorted(verbs) == _READ_WRITE else sorted(verbs)}
    return made if (group, version) == of else {"group": group, "version": version, **made}


def _check_names(*names: object) -> None:
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no name")


def known_kinds(tree: SourceTree, served: Document) -> list[GroupVersionKind]:
    """Kinds that the API server's scheme has and `served`, the facts of discovery, lacks: they are only
    decoded, from storage or as bodies. Lists and options are not among them.
    """
    listed = set()
    for fact in served["resources"]:
        for each in (fact, *fact.get("subresources", {}).values()):
            group, version = each.get("group", fact["group"]), each.get("version", fact["version"])
            listed.add(GroupVersionKind(group, version, each["kind"]))
    known = {gvk for package in _installed(tree) for gvk in _registered(tree.package(package))}
    return sorted(gvk for gvk in known - listed if not gvk.kind.endswith(("List", "Options")))


def _installed(tree: SourceTree) -> Iterator[str]:
    """Yields import paths of the published packages whose types `pkg/apis/GROUP/install` registers."""
    for package in tree.packages_below(_INTERNAL):
        if not package.endswith("/install"):
            continue
        for file in tree.package(package).files():
            for path in sorted(file.imports.values()):
                if path.startswith(f"{_INTERNAL}/"):
                    yield from _published(tree.package(path))


def _published(package: Package) -> Iterator[str]:
    file = package.file("register.go")
    if file is not None:
        yield from (path for path in sorted(file.imports.values()) if path.startswith(_EXTERNAL))


def _registered(package: Package) -> Iterator[GroupVersionKind]:
    """Yields what `AddKnownTypes(SchemeGroupVersion, &Kind{}, …)` names of the package itself."""
    file = package.file("register.go")
    if file is None:
        return
    group = next((_string(value.node) for value in file.constants() if value.name == "GroupName"), "")
    versions = [value.node for value in file.variables() if value.name == "SchemeGroupVersion"]
    version = _version(versions[0]) if versions else ""
    for function in file.functions():
        for call in nodes_of(function.node, "call_expression"):
            called = call.child_by_field_name("function")
            if called is None or not text_of(called).endswith(".AddKnownTypes"):
                continue
            for literal in nodes_of(call, "composite_literal"):
                kind = literal.child_by_field_name("type")
                if kind is not None and kind.type == "type_identifier":
                    yield GroupVersionKind(group, version, text_of(kind))


def _version(node: Node | None) -> str:
    """The version of `schema.GroupVersion{Group: …, Version: …}`."""
    for element in nodes_of(node, "keyed_element") if node is not None else ():
        key, value = element.named_children
        if text_of(key) == "Version":
            return _string(value)
    return ""


def _string(node: Node | None) -> str:
    """The first string literal below a node."""
    for literal in nodes_of(node, "interpreted_string_literal") if node is not None else ():
        return text_of(literal)[1:-1]
    return ""
