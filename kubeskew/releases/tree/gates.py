"""The feature gates that the components of a tree register, as they are in the tree's own minor.

Tables of gates are composite literals: maps of specs (`FeatureSpec`) or of specs by version
(`VersionedSpecs`), of which the one that acts in a minor is the newest that is not newer than it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tree_sitter import Node

from kubeskew.releases.tree.go_syntax import GoFile, TreeError, assigned, nodes_of, text_of
from kubeskew.releases.tree.go_values import Literal, Scope, unreadable
from kubeskew.releases.tree.source_tree import Package, Packages, SourceTree

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
    packages = [tree.package(path) for path in gate_packages(tree)]
    if not any(package.names for package in packages):
        raise TreeError(f"{tree.root / 'pkg/features'} has no feature gates; name the root of a clone")
    registered = read_gates(tree, packages)
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


def read_gates(sources: Packages, packages: Iterable[Package]) -> Registered:
    """All gates of some packages of the sources."""
    found = Registered()
    for package in packages:
        for file in package.files():
            scope = Scope(sources, file)
            for literal in file.nodes("composite_literal"):
                kind = literal.child_by_field_name("type")
                key = kind.child_by_field_name("key") if kind is not None else None
                value = kind.child_by_field_name("value") if kind is not None else None
                if key is None or value is None or text_of(key).rpartition(".")[2] != "Feature":
                    continue
                for name, node in scope.literal(literal).entries:
                    if name is not None:
                        _read_entry(found, text_of(value), scope.text(name), node, scope)
            for gate in _put(file, scope):
                found.variations[gate] = "put into the table when a process starts"
    return found


def _read_entry(found: Registered, written: str, gate: str, node: Node, scope: Scope) -> None:
    kind = written.rpartition(".")[2]
    literal = scope.literal(node)
    if written.startswith(_DEPENDENCIES) and kind == "Feature":
        found.dependencies[gate] = [literal.scope.text(element) for element in literal.elements()]
    elif kind == _SPEC and not written.startswith(_DEPENDENCIES):
        found.specs.setdefault(gate, []).append(_spec(found, gate, literal))
    elif kind in (_SPEC, _VERSIONED):
        specs = [_spec(found, gate, literal.scope.literal(element)) for element in literal.elements()]
        found.specs.setdefault(gate, []).extend(specs)


def _spec(found: Registered, gate: str, literal: Literal) -> Spec:
    fields, file = literal.fields(), literal.scope.file
    if "PreRelease" not in fields:
        raise unreadable(file, literal.node, f"the spec of {gate} has no PreRelease")
    stage = text_of(fields["PreRelease"]).rpartition(".")[2]
    if stage not in _STAGES:
        raise unreadable(file, fields["PreRelease"], f"the stage of {gate} cannot be read")
    state = []
    for name in ("Default", "LockToDefault"):
        value = fields.get(name)
        state.append(value is not None and literal.scope.boolean(value))
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


def _put(file: GoFile, scope: Scope) -> Iterator[str]:
    """Gates of `table[Gate] = …FeatureSpec{…}` in functions."""
    for statement in file.nodes("assignment_statement"):
        for target, value in assigned(statement):
            kind = text_of(value.child_by_field_name("type") or value).rpartition(".")[2]
            index = target.child_by_field_name("index") if target.type == "index_expression" else None
            if index is None or kind not in (_SPEC, _VERSIONED):
                continue
            if index.type != "identifier" or text_of(index)[:1].isupper():  # no variable of a loop
                yield scope.text(index)
