"""The API version in which the API server of a tree stores each kind.

As staging/src/k8s.io/apiserver/pkg/server/storage/resource_encoding_config.go chooses it: an override of
pkg/kubeapiserver/default_storage_factory_builder.go, else the first version of the group's priorities that
the release before could read, for the server stays compatible with that. Servers with settings of their own
are not followed: upstream's stores CustomResourceDefinitions in v1beta1, which it does not serve.
"""

from dataclasses import dataclass

from tree_sitter import Node

from kubeskew.releases.tree.discovery import listed_resources
from kubeskew.releases.tree.go_syntax import GoFile, TreeError, method_calls, nodes_of, text_of
from kubeskew.releases.tree.go_values import Literal, Scope, unreadable
from kubeskew.releases.tree.registration import (
    group_name,
    install_packages,
    registered_kinds,
    registering_package,
)
from kubeskew.releases.tree.source_tree import INTERNAL_APIS, Package, SourceTree

_FACTORY = "k8s.io/kubernetes/pkg/kubeapiserver"
_FACTORY_FILE = "default_storage_factory_builder.go"
_ENCODING = "staging/src/k8s.io/apiserver/pkg/server/storage/resource_encoding_config.go"
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
    for group, plural, kind in sorted(listed_resources(tree)):
        group_of_store, plural_of_store = shared.get((group, plural), (group, plural))
        version = overrides.get((group_of_store, plural_of_store)) or _chosen(
            tree, priorities, group_of_store, kind
        )
        stored[f"{group}/{kind}"] = f"{group_of_store}/{version}".removeprefix("/")
    return stored


def _priorities(tree: SourceTree) -> dict[str, list[_Version]]:
    """The versions of each group in the order that the scheme prefers them."""
    found: dict[str, list[_Version]] = {}
    for path in (*install_packages(tree), *_OTHER_INSTALLS):
        for file in tree.package(path).files():
            for call in method_calls(file.root, "SetVersionPriority"):
                for node in call.arguments:
                    group, version = _version(tree, file, node)
                    found.setdefault(group, []).append(version)
    if not found:
        raise TreeError(f"{tree.directory(INTERNAL_APIS)} installs no API groups; name the root of a clone")
    return found


def _version(tree: SourceTree, file: GoFile, node: Node) -> tuple[str, _Version]:
    """A group and a version by the expression `v1.SchemeGroupVersion`."""
    scope = Scope(tree, file)
    named, reference = scope.value(node), scope.reference(node)
    if not isinstance(named, Literal) or reference is None:
        raise unreadable(file, node, "this is no group version that can be read")
    group, version = named.text("Group"), named.text("Version")
    package = registering_package(tree, reference.package)
    introduced = _lifecycle(package, "APILifecycleIntroduced")
    kinds = {kind: introduced.get(kind, 0) for file in package.files() for kind in registered_kinds(file)}
    skips = "replacementInterface" in tree.file(_ENCODING)
    replaced = frozenset(_lifecycle(package, "APILifecycleReplacement")) if skips else frozenset()
    return group, _Version(version, kinds, replaced)


def _lifecycle(package: Package, method: str) -> dict[str, int]:
    """The minors that a generated method says, by kind."""
    return {
        function.receiver.removeprefix("*"): _minor(function.body)
        for name in package.names
        if name.startswith("zz_generated.prerelease") and (file := package.file(name)) is not None
        for function in file.functions()
        if function.name == method and function.body is not None
    }


def _minor(body: Node) -> int:
    """The second figure of `return 1, 34`."""
    figures = [int(text_of(node)) for node in nodes_of(body, "int_literal")]
    return figures[1] if len(figures) == 2 else 0


def _chosen(tree: SourceTree, priorities: dict[str, list[_Version]], group: str, kind: str) -> str:
    versions = priorities.get(group, [])
    if not versions:
        raise TreeError(
            f"{tree.directory(INTERNAL_APIS)} does not install the API group {group}, which is served"
        )
    for version in versions:
        readable = kind in version.kinds and version.kinds[kind] < tree.minor
        if readable and kind not in version.replaced:
            return version.name
    return versions[0].name


_Store = tuple[str, str]  # group, plural


def _overrides(tree: SourceTree) -> tuple[dict[_Store, str], dict[_Store, _Store]]:
    """Versions of resources that have one of their own, and stores that two groups share."""
    file = tree.package(_FACTORY).needed(_FACTORY_FILE)
    overrides: dict[_Store, str] = {}
    shared: dict[_Store, _Store] = {}
    for call in method_calls(file.root, "WithVersion", "AddCohabitatingResources"):
        if call.method == "WithVersion":
            overrides[_resource(tree, file, call.owner)] = Scope(tree, file).text(call.arguments[0])
        else:
            stores = [_resource(tree, file, node) for node in call.arguments]
            shared |= dict.fromkeys(stores[1:], stores[0])
    return overrides, shared


def _resource(tree: SourceTree, file: GoFile, node: Node) -> _Store:
    """Group and plural of `storage.Resource("csidrivers")`."""
    function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    reference = Scope(tree, file).reference(function) if function is not None else None
    if reference is None or arguments is None or reference.name != "Resource":
        raise unreadable(file, node, "this is no resource that can be read")
    group = group_name(tree, reference.package)
    if group is None:
        raise unreadable(file, node, "the group of this resource cannot be read")
    return group, Scope(tree, file).text(arguments.named_children[0])
