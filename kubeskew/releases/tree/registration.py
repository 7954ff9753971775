"""Groups, versions and kinds as packages of a tree register them in the API server's scheme."""

from collections.abc import Iterator

from kubeskew.releases.tree.go_syntax import GoFile, method_calls, nodes_of, text_of
from kubeskew.releases.tree.go_values import Reference, Scope, declared
from kubeskew.releases.tree.source_tree import INTERNAL_APIS, Package, SourceTree


def install_packages(tree: SourceTree) -> list[str]:
    """Import paths of the packages that install the versions of a group, `pkg/apis/GROUP/install`."""
    return [path for path in tree.packages_below(INTERNAL_APIS) if path.endswith("/install")]


def group_name(tree: SourceTree, package: str) -> str | None:
    """The group of a package's kinds, empty of the core group; None if the package does not say."""
    named = declared(tree, Reference(package, "GroupName"))
    if named is None:
        return None
    node, file = named
    return Scope(tree, file).text(node)


def registering_package(tree: SourceTree, path: str) -> Package:
    """The package that registers a version's kinds: the one that another takes its scheme builder from."""
    builder = tree.package(path).values.get("localSchemeBuilder")
    if builder is not None:
        node, file = builder
        reference = Scope(tree, file).reference(node.named_children[0]) if node.named_children else None
        if reference is not None and reference.package != path:
            return registering_package(tree, reference.package)
    return tree.package(path)


def registered_kinds(file: GoFile) -> Iterator[str]:
    """Kinds of `scheme.AddKnownTypes(SchemeGroupVersion, &Pod{}, …)`, as the file names them."""
    for call in method_calls(file.root, "AddKnownTypes") if file.mentions("AddKnownTypes") else ():
        for argument in call.arguments[1:]:
            for literal in nodes_of(argument, "composite_literal"):
                kind = literal.child_by_field_name("type")
                if kind is not None:
                    yield text_of(kind)
