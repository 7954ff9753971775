"""The API version in which the API server of a tree stores each kind.

As staging/src/k8s.io/apiserver/pkg/server/storage/resource_encoding_config.go chooses it: an override of
pkg/kubeapiserver/default_storage_factory_builder.go, else the first version of the group's priorities that
the release before could read, for the server stays compatible with that. Servers with settings of their own
are not followed: upstream's stores CustomResourceDefinitions in v1beta1, which it does not serve.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from kubeskew.releases.tree.go_syntax import GoFile, TreeError, nodes_of, text_of
from kubeskew.releases.tree.go_values import Literal, Scope, unreadable
from kubeskew.releases.tree.source_tree import Package, SourceTree

_DISCOVERY = "api/discovery/aggregated_v2.json"
_FACTORY = "k8s.io/kubernetes/pkg/kubeapiserver"
_FACTORY_FILE = "default_storage_factory_builder.go"
_ENCODING = "staging/src/k8s.io/apiserver/pkg/server/storage/resource_encoding_config.go"
_APIS = "k8s.io/kubernetes/pkg/apis"
_OTHER_INSTALLS = (
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install",
    "k8s.io/kube-aggregator/pkg/apis/apiregistration/install",
)


@dataclass(frozen=True, slots=True)
class _Version:
    """A version of a group: its kinds with the minor that introduced each, 0 if the tree does not say.

    Trees of some minors do not store kinds of a version that names a replacement.
    """

    name: str
    kinds: dict[str, int]
    replaced: frozenset[str]


def storage_versions(tree: SourceTree) -> dict[str, str]:
    """API versions by `group/Kind`, of all kinds that the tree's discovery documents list."""
    priorities = _priorities(tree)
    overrides, shared = _overrides(tree)
    stored = {}
    for group, plural, kind in sorted(set(listed_resources(tree))):
        group_of_store, plural_of_store = shared.get((group, plural), (group, plural))
        version = overrides.get((group_of_store, plural_of_store)) or _chosen(
            tree, priorities, group_of_store, kind
        )
        stored[f"{group}/{kind}"] = f"{group_of_store}/{version}".removeprefix("/")
    return stored


def listed_resources(tree: SourceTree) -> Iterator[tuple[str, str, str]]:
    """Group, plural and kind of what the API server of the tree lists, by its discovery documents."""
    try:
        for group in tree.json(_DISCOVERY)["items"] + _core(tree):
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                for resource in version["resources"]:
                    if "list" in resource["verbs"]:
                        kind = resource["responseKind"]
                        yield kind["group"] or name, resource["resource"], kind["kind"]
    except (AttributeError, KeyError, TypeError) as error:
        raise TreeError(
            f"{tree.root / _DISCOVERY}: this is no discovery document ({type(error).__name__}: {error}); "
            "make it again with hack/update-openapi-spec.sh"
        ) from None


def _core(tree: SourceTree) -> list[dict[str, list[dict[str, object]]]]:
    """The core group, which the aggregated document of /apis does not have."""
    listed = tree.json("api/discovery/api__v1.json")["resources"]
    resources = [
        {
            "resource": row["name"],
            "verbs": row["verbs"],
            "responseKind": {"group": row.get("group", ""), "kind": row["kind"]},
        }
        for row in listed
        if "/" not in row["name"]
    ]
    return [{"metadata": {}, "versions": [{"resources": resources}]}]  # type: ignore[dict-item]


def _priorities(tree: SourceTree) -> dict[str, list[_Version]]:
    """The versions of each group in the order that the scheme prefers them."""
    installs = [path for path in tree.packages_below(_APIS) if path.endswith("/install")]
    found: dict[str, list[_Version]] = {}
    for path in (*installs, *_OTHER_INSTALLS):
        for file in tree.package(path).files():
            for call in file.nodes("call_expression"):
                function = call.child_by_field_name("function")
                if function is None or not text_of(function).endswith(".SetVersionPriority"):
                    continue
                arguments = call.child_by_field_name("arguments")
                for node in arguments.named_children if arguments is not None else ():
                    group, version = _version(tree, file, node)
                    found.setdefault(group, []).append(version)
    if not found:
        raise TreeError(f"{tree.directory(_APIS)} installs no API groups; name the root of a clone")
    return found


def _version(tree: SourceTree, file: GoFile, node: Node) -> tuple[str, _Version]:
    """A group and a version by the expression `v1.SchemeGroupVersion`."""
    scope = Scope(tree, file)
    named, reference = scope.value(node), scope.reference(node)
    if not isinstance(named, Literal) or reference is None:
        raise unreadable(file, node, "this is no group version that can be read")
    group, version = named.text("Group"), named.text("Version")
    package = _registering(tree, reference.package)
    introduced = _lifecycle(package, "APILifecycleIntroduced")
    kinds = {kind: introduced.get(kind, 0) for file in package.files() for kind in registered_kinds(file)}
    skips = "replacementInterface" in tree.file(_ENCODING)
    replaced = frozenset(_lifecycle(package, "APILifecycleReplacement")) if skips else frozenset()
    return group, _Version(version, kinds, replaced)


def _registering(tree: SourceTree, path: str) -> Package:
    """The package that registers a version's kinds: the one that another takes its scheme builder from."""
    builder = tree.package(path).values.get("localSchemeBuilder")
    if builder is not None:
        node, file = builder
        reference = Scope(tree, file).reference(node.named_children[0]) if node.named_children else None
        if reference is not None and reference.package != path:
            return _registering(tree, reference.package)
    return tree.package(path)


def _lifecycle(package: Package, method: str) -> dict[str, int]:
    """The minors that a generated method says, by kind."""
    return {
        function.receiver.removeprefix("*"): _minor(function.body)
        for name in package.names
        if name.startswith("zz_generated.prerelease") and (file := package.file(name)) is not None
        for function in file.functions()
        if function.name == method and function.body is not None
    }


def registered_kinds(file: GoFile) -> Iterator[str]:
    """Kinds of `scheme.AddKnownTypes(SchemeGroupVersion, &Pod{}, …)`."""
    for call in file.nodes("call_expression") if file.mentions("AddKnownTypes") else ():
        function, arguments = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if function is None or arguments is None or not text_of(function).endswith(".AddKnownTypes"):
            continue
        for literal in nodes_of(arguments, "composite_literal"):
            kind = literal.child_by_field_name("type")
            if kind is not None:
                yield text_of(kind)


def _minor(body: Node) -> int:
    """The second figure of `return 1, 34`."""
    figures = [int(text_of(node)) for node in nodes_of(body, "int_literal")]
    return figures[1] if len(figures) == 2 else 0


def _chosen(tree: SourceTree, priorities: dict[str, list[_Version]], group: str, kind: str) -> str:
    versions = priorities.get(group, [])
    if not versions:
        raise TreeError(f"{tree.directory(_APIS)} does not install the API group {group}, which is served")
    for version in versions:
        readable = kind in version.kinds and version.kinds[kind] < tree.minor
        if readable and kind not in version.replaced:
            return version.name
    return versions[0].name


_Store = tuple[str, str]  # group, plural


def _overrides(tree: SourceTree) -> tuple[dict[_Store, str], dict[_Store, _Store]]:
    """Versions of resources that have one of their own, and stores that two groups share."""
    file = tree.package(_FACTORY).file(_FACTORY_FILE)
    if file is None:
        raise TreeError(f"{tree.directory(_FACTORY) / _FACTORY_FILE} is missing: restore it and import again")
    overrides: dict[_Store, str] = {}
    shared: dict[_Store, _Store] = {}
    for call in file.nodes("call_expression"):
        function, arguments = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if function is None or arguments is None or function.type != "selector_expression":
            continue
        name, operand = function.child_by_field_name("field"), function.child_by_field_name("operand")
        if name is None or operand is None:
            continue
        if text_of(name) == "WithVersion":
            overrides[_resource(tree, file, operand)] = Scope(tree, file).text(arguments.named_children[0])
        elif text_of(name) == "AddCohabitatingResources":
            stores = [_resource(tree, file, node) for node in arguments.named_children]
            shared |= dict.fromkeys(stores[1:], stores[0])
    return overrides, shared


def _resource(tree: SourceTree, file: GoFile, node: Node) -> _Store:
    """Group and plural of `storage.Resource("csidrivers")`."""
    function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    reference = Scope(tree, file).reference(function) if function is not None else None
    if reference is None or arguments is None or reference.name != "Resource":
        raise unreadable(file, node, "this is no resource that can be read")
    named = tree.package(reference.package).values.get("GroupName")
    if named is None:
        raise unreadable(file, node, "the group of this resource cannot be read")
    value, declaring = named
    return Scope(tree, declaring).text(value), Scope(tree, file).text(arguments.named_children[0])
