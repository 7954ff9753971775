"""The feature gates that the components of a tree register, as they are in the tree's own minor.

Tables of gates are composite literals: maps of specs (`FeatureSpec`) or of specs by version
(`VersionedSpecs`), of which the one that acts in a minor is the newest that is not newer than it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tree_sitter import Node

from kubeskew.releases.tree.go_syntax import GoFile, TreeError, nodes_of, text_of
from kubeskew.releases.tree.go_values import unreadable
from kubeskew.releases.tree.source_tree import SourceTree

_STAGES = ("Alpha", "Beta", "GA", "Deprecated")
# Modules of staging that are examples or tools: no component has their gates.
_APART = ("sample-", "code-generator", "kubectl", "cli-runtime", "legacy-cloud-providers")
_SPEC, _VERSIONED, _DEPENDENCIES = "FeatureSpec", "VersionedSpecs", "[]"


@dataclass(frozen=True, slots=True)
class Spec:
    """The state of a gate from a minor on, 0 of specs without a version."""

    since: int
    stage: str
    default: bool
    locked: bool


@dataclass
class Registered:
    """All specs by gate, dependencies, and what is not the same everywhere.

    `variations` has gates whose state depends on the operating system (the state is then Linux's) or that
    are put into a table when a process starts; the latter are in no other field.
    """

    specs: dict[str, list[Spec]] = field(default_factory=dict)
    dependencies: dict[str, list[str]] = field(default_factory=dict)
    variations: dict[str, str] = field(default_factory=dict)

    def acting(self, minor: int) -> dict[str, Spec]:
        """Gates that the minor has, each with its state there."""
        known = {name: [spec for spec in specs if spec.since <= minor] for name, specs in self.specs.items()}
        return {
            name: max(specs, key=lambda spec: spec.since) for name, specs in sorted(known.items()) if specs
        }


def gates(tree: SourceTree) -> dict[str, Any]:
    """`{"gates": {name: {"stage", "default", "locked"}}, "dependencies": {name: [name]}, …}`.

    Dependencies are those that the tree's table names, without gates that depend on none. Gates that are
    registered for later minors alone are in the list `later`.
    """
    paths = gate_packages(tree)
    if not any(tree.package(path).names for path in paths):
        raise TreeError(f"{tree.root / 'pkg/features'} has no feature gates; name the root of a clone")
    registered = read_gates(file for path in paths for file in tree.package(path).files())
    acting = registered.acting(tree.minor)
    return {
        "gates": {
            name: {"stage": spec.stage, "default": spec.default, "locked": spec.locked}
            for name, spec in acting.items()
        },
        "dependencies": {
            name: needed
            for name, needed in sorted(registered.dependencies.items())
            if needed and name in acting
        },
        "later": sorted(registered.specs.keys() - acting.keys()),
        "variations": dict(sorted(registered.variations.items())),
    }


def gate_packages(tree: SourceTree) -> list[str]:
    """Import paths of the packages that register gates: folders named features, and that of logging."""
    staging = tree.root / "staging/src/k8s.io"
    folders = {folder for depth in ("*", "*/*", "*/*/*") for folder in staging.glob(f"{depth}/features")}
    found = sorted(
        f"k8s.io/{folder.relative_to(staging).as_posix()}"
        for folder in folders
        if not folder.relative_to(staging).parts[0].startswith(_APART)
    )
    return ["k8s.io/kubernetes/pkg/features", *found, "k8s.io/component-base/logs/api/v1"]


def read_gates(files: Iterable[GoFile]) -> Registered:
    """All gates of some files, which see the constants of one another."""
    listed = list(files)
    names = _Names(listed)
    found = Registered()
    for file in listed:
        for literal in file.nodes("composite_literal"):
            kind = literal.child_by_field_name("type")
            key = kind.child_by_field_name("key") if kind is not None else None
            value = kind.child_by_field_name("value") if kind is not None else None
            if key is None or value is None or text_of(key).rpartition(".")[2] != "Feature":
                continue
            for name, node in _pairs(literal):
                _read_entry(found, text_of(value), names.gate(name, file), node, names, file)
        for gate in _assigned(file, names):
            found.variations[gate] = "put into the table when a process starts"
    return found


def loose_files(directory: Path) -> list[GoFile]:
    """All Go files below a directory that is no tree: sources that another project vendored."""
    return [GoFile(path, "") for path in sorted(directory.rglob("*.go"))]


def _read_entry(
    found: Registered, written: str, gate: str, node: Node, names: "_Names", file: GoFile
) -> None:
    kind = written.rpartition(".")[2]
    if written.startswith(_DEPENDENCIES) and kind == "Feature":
        found.dependencies[gate] = [names.gate(element, file) for element in _elements(node)]
    elif kind == _SPEC:
        found.specs.setdefault(gate, []).append(_spec(found, gate, node, names, file))
    elif kind == _VERSIONED or (written.startswith(_DEPENDENCIES) and kind == _SPEC):
        specs = [_spec(found, gate, element, names, file) for element in _elements(node)]
        found.specs.setdefault(gate, []).extend(specs)


def _spec(found: Registered, gate: str, node: Node, names: "_Names", file: GoFile) -> Spec:
    fields = {text_of(key): value for key, value in _pairs(node)}
    if "PreRelease" not in fields:
        raise unreadable(file, node, f"the spec of {gate} has no PreRelease")
    stage = text_of(fields["PreRelease"]).rpartition(".")[2]
    if stage not in _STAGES:
        raise unreadable(file, fields["PreRelease"], f"the stage of {gate} cannot be read")
    state = []
    for name in ("Default", "LockToDefault"):
        value = fields.get(name)
        state.append(value is not None and names.boolean(value, file))
        if value is not None and "GOOS" in text_of(value):
            found.variations[gate] = f"{name} depends on the operating system: {text_of(value)}"
    return Spec(_since(fields.get("Version"), gate, file), stage, *state)


def _since(node: Node | None, gate: str, file: GoFile) -> int:
    """The minor of `version.MustParse("1.30")`."""
    if node is None:
        return 0
    for text in nodes_of(node, "interpreted_string_literal"):
        major, _, minor = text_of(text)[1:-1].partition(".")
        if major == "1" and minor.partition(".")[0].isdigit():
            return int(minor.partition(".")[0])
        if major == "0":
            return 0
    raise unreadable(file, node, f"the version of {gate} cannot be read")


class _Names:
    """Constants of the files by package and name: strings are gates, booleans stand for defaults."""

    def __init__(self, files: list[GoFile]) -> None:
        self._gates: dict[tuple[str, str], str] = {}
        self._booleans: dict[tuple[str, str], bool] = {}
        for file in files:
            for value in (*file.constants(), *file.variables()):
                if value.node is None:
                    continue
                node = _converted(value.node)
                if node.type == "interpreted_string_literal":
                    self._gates[file.package, value.name] = text_of(node)[1:-1]
                elif node.type in ("true", "false"):
                    self._booleans[file.package, value.name] = node.type == "true"

    def gate(self, node: Node, file: GoFile) -> str:
        """The name of a gate that a constant has, or that is written out."""
        node = _converted(node)
        if node.type == "interpreted_string_literal":
            return text_of(node)[1:-1]
        for package, name in self._places(node, file):
            if (package, name) in self._gates:
                return self._gates[package, name]
        raise unreadable(file, node, "no file of feature gates declares this gate")

    def boolean(self, node: Node, file: GoFile) -> bool:
        if node.type in ("true", "false"):
            return node.type == "true"
        for package, name in self._places(node, file):
            if (package, name) in self._booleans:
                return self._booleans[package, name]
        if node.type == "binary_expression" and "GOOS" in text_of(node):
            return ("==" in text_of(node)) == ('"linux"' in text_of(node))
        raise unreadable(file, node, "this is no boolean constant that can be read")

    @staticmethod
    def _places(node: Node, file: GoFile) -> Iterator[tuple[str, str]]:
        """The packages that may declare a name; files that another project vendored are in one, nameless."""
        qualifier, _, name = text_of(node).rpartition(".")
        yield file.imports.get(qualifier, file.package) if qualifier else file.package, name
        yield "", name


def _converted(node: Node) -> Node:
    """The argument of a conversion, `Feature("Name")`; another node itself."""
    arguments = node.child_by_field_name("arguments") if node.type == "call_expression" else None
    return arguments.named_children[0] if arguments and len(arguments.named_children) == 1 else node


def _body(node: Node) -> Node:
    return (node.child_by_field_name("body") or node) if node.type == "composite_literal" else node


def _pairs(node: Node) -> Iterator[tuple[Node, Node]]:
    for element in _body(node).named_children:
        if element.type == "keyed_element":
            key, value = element.child_by_field_name("key"), element.child_by_field_name("value")
            if key is not None and value is not None:
                yield key.named_children[0], value.named_children[0]


def _elements(node: Node) -> Iterator[Node]:
    for element in _body(node).named_children:
        if element.type == "literal_element":
            yield element.named_children[0]


def _assigned(file: GoFile, names: _Names) -> Iterator[str]:
    """Gates of `table[Gate] = …FeatureSpec{…}` in functions."""
    for statement in file.nodes("assignment_statement"):
        left, right = statement.child_by_field_name("left"), statement.child_by_field_name("right")
        if left is None or right is None or left.named_children[0].type != "index_expression":
            continue
        index = left.named_children[0].child_by_field_name("index")
        kinds = [text_of(value.child_by_field_name("type") or value) for value in right.named_children]
        if index is None or not kinds or kinds[0].rpartition(".")[2] not in (_SPEC, _VERSIONED):
            continue
        if index.type != "identifier" or text_of(index)[:1].isupper():  # no variable of a loop
            yield names.gate(index, file)
