"""Resources that a tree's API server serves with everything on, from `api/discovery`, and kinds that it only
decodes.

The core group is in `api__v1.json`, the others are in `aggregated_v2.json`; upstream's
`hack/update-openapi-spec.sh` writes both.
"""

from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.releases.tree.go_values import Scope
from kubeskew.releases.tree.registration import install_packages, registered_kinds, registering_package
from kubeskew.releases.tree.source_tree import API, INTERNAL_APIS, Package, SourceTree

Document = dict[str, Any]

CORE = "api/discovery/api__v1.json"
AGGREGATED = "api/discovery/aggregated_v2.json"
_STANDARD = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_READ_WRITE = ["get", "patch", "update"]
_DOCUMENT = "discovery document of Kubernetes"


def discovery(tree: SourceTree) -> Document:
    """`groupOrder` is by priority, and `resources` has a fact per resource, of this minor alone (see
    `kubeskew/releases/catalogue/resources.py`).
    """
    core, aggregated = tree.json(CORE), tree.json(AGGREGATED)
    span = f"1.{tree.minor}-1.{tree.minor}"
    try:
        resources = list(_of_core(core))
    except (KeyError, TypeError, AttributeError) as error:
        raise tree.misshapen(CORE, _DOCUMENT, error) from None
    try:
        groups = [item["metadata"]["name"] for item in aggregated["items"]]
        for item in aggregated["items"]:
            resources += _of_group(item)
    except (KeyError, TypeError, AttributeError) as error:
        raise tree.misshapen(AGGREGATED, _DOCUMENT, error) from None
    return {"groupOrder": groups, "resources": [{**fact, "minors": span} for fact in resources]}


def listed_resources(tree: SourceTree) -> set[tuple[str, str, str]]:
    """Group, plural and kind of what the API server of the tree lists."""
    return {
        (fact["group"], fact["resource"], fact["kind"])
        for fact in discovery(tree)["resources"]
        if fact["verbs"] == "std" or "list" in fact["verbs"]
    }


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
    known = {gvk for package in _installed(tree) for gvk in _registered(tree, package)}
    return sorted(gvk for gvk in known - listed if not gvk.kind.endswith(("List", "Options")))


def _installed(tree: SourceTree) -> Iterator[Package]:
    """Yields the published packages whose types are installed."""
    for install in install_packages(tree):
        for file in tree.package(install).files():
            for path in sorted(file.imports.values()):
                if path.startswith(f"{INTERNAL_APIS}/"):
                    package = registering_package(tree, path)
                    if package.path.startswith(f"{API}/"):
                        yield package


def _registered(tree: SourceTree, package: Package) -> Iterator[GroupVersionKind]:
    """Yields the kinds that a package registers of its own types."""
    declaration = package.values.get("SchemeGroupVersion")
    if declaration is None:
        return
    node, declaring = declaration
    version = Scope(tree, declaring).literal(node)
    for file in package.files():
        for kind in registered_kinds(file):
            if "." not in kind:
                yield GroupVersionKind(version.text("Group"), version.text("Version"), kind)
