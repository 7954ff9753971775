"""Go types of the API as a tree declares them, in the shape of the facts that the catalogue is made of.

    {"version": "1.36",
     "types": {"core/v1": {"Pod": {"fields": {json name: field}, "markers": ["+…"]},
                           "RestartPolicy": {"alias": "string", "markers": ["+enum"], "values": […]},
                           "IPFamilyPolicyType": {"alias": "=", "of": "IPFamilyPolicy"}}},
     "imports": {"core/v1": {"metav1": "k8s.io/apimachinery/pkg/apis/meta/v1"}},
     "constants": {"core/v1": {"AzureSharedBlobDisk": "Shared"}},
     "machinery": {"k8s.io/apimachinery/pkg/apis/meta/v1": {…}}}

A field has `type` as written and what its tag and its comments say: `omitempty`, `omitzero`,
`patchStrategy`, `patchMergeKey`, `markers` without their `+`. An embedded struct whose fields are the
object's own is `<inline:TYPE>`. `constants` are those that `default=ref(…)` markers name, as written there.
`machinery` has the types that modules other than k8s.io/api publish; it is left out if the tree lacks their
sources.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kubeskew.releases.tree.go_constants import UNKNOWN, Constants, Scalar
from kubeskew.releases.tree.go_syntax import (
    GoFile,
    StructField,
    TreeError,
    TypeDeclaration,
    nodes_of,
    text_of,
)
from kubeskew.releases.tree.source_tree import API, META, Package, SourceTree

Document = dict[str, Any]

MACHINERY = (
    META,
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
    "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1",
)
_VERSION = re.compile(r"v\d+((alpha|beta)\d+)?$")
_MARKER = re.compile(r"\+[A-Za-z]")
_METADATA = ("ObjectMeta", "ListMeta")  # named in JSON, but always `metadata`
_REFERENCE = re.compile(r"default=ref\(([^)]+)\)")


def types(tree: SourceTree) -> Document:
    """Raises TreeError where a file is no Go."""
    packages = {package.removeprefix(API + "/"): tree.package(package) for package in api_packages(tree)}
    constants = Constants(tree)
    found = {name: package_types(package, constants) for name, package in packages.items()}
    machinery = {path: package_types(tree.package(path), constants) for path in MACHINERY}
    made: Document = {
        "version": f"1.{tree.minor}",
        "types": {name: declared for name, declared in found.items() if declared},
        "imports": {name: _imports(packages[name]) for name, declared in found.items() if declared},
        "constants": {
            name: referred
            for name, package in packages.items()
            if (referred := _referred(found[name], package, constants))
        },
    }
    return made | ({"machinery": machinery} if any(machinery.values()) else {})


def api_packages(tree: SourceTree) -> list[str]:
    """Import paths of the API's groups and versions, `k8s.io/api/core/v1`."""
    folders = sorted(tree.directory(API).glob("*/v*"))
    return [f"{API}/{folder.parent.name}/{folder.name}" for folder in folders if _VERSION.match(folder.name)]


def package_types(package: Package, constants: Constants) -> Document:
    """All exported types of a package, by name."""
    values = _values(constants, package)
    declared = sorted(package.types.items())
    return {
        name: _declaration(declaration, values.get(name, []))
        for name, declaration in declared
        if name[:1].isupper() and not _is_behaviour(declaration)
    }


def _is_behaviour(declaration: TypeDeclaration) -> bool:
    return declaration.node.type in ("interface_type", "function_type")


def _declaration(declaration: TypeDeclaration, values: list[str]) -> Document:
    made: Document = {}
    markers = [line for line in declaration.doc if _MARKER.match(line)]
    if declaration.is_struct:
        fields = dict(_fields(declaration))
        made = {"fields": dict(sorted(fields.items()))} if fields else {"alias": "struct{}"}
    elif declaration.alias:
        made = {"alias": "=", "of": declaration.text()}
    else:
        made = {"alias": declaration.text()}
    if markers:
        made["markers"] = markers
    if values:
        made["values"] = values
    return made


def _fields(declaration: TypeDeclaration) -> Iterator[tuple[str, Document]]:
    """Fields that JSON does not have are left out."""
    for field in declaration.fields():
        tags = field.tags
        name, *options = tags.get("json", "").split(",")
        if name == "-" or not field.name[:1].isupper():
            continue
        if field.embedded and (not name or field.name in _METADATA):
            name = f"<inline:{field.type}>"
        yield name or field.name, _field(field, tags, options)


def _field(field: StructField, tags: Mapping[str, str], options: list[str]) -> Document:
    made: Document = {"type": field.type}
    made |= {option: True for option in ("omitempty", "omitzero") if option in options}
    made |= {name: tags[name] for name in ("patchStrategy", "patchMergeKey") if name in tags}
    markers = [line[1:] for line in field.doc if _MARKER.match(line)]
    if markers:
        made["markers"] = markers
    return made


def _values(constants: Constants, package: Package) -> dict[str, list[str]]:
    """The texts of constants by the name of their type, in the order of the source."""
    found: dict[str, list[str]] = {}
    for constant in package.constants.values():
        kind, value = constants.typed(constant)
        if kind and isinstance(value, str) and value not in found.setdefault(kind, []):
            found[kind].append(value)
    return {kind: values for kind, values in found.items() if values}


def _referred(declared: Document, package: Package, constants: Constants) -> dict[str, Scalar]:
    """Raises TreeError for a default that no constant of the tree has."""
    found: dict[str, Scalar] = {}
    for made in declared.values():
        for field in made.get("fields", {}).values():
            for marker in field.get("markers", ()):
                if match := _REFERENCE.match(marker):
                    path, _, name = match[1].rpartition(".")
                    value = constants.of(path or package.path, name)
                    if value is UNKNOWN:
                        raise TreeError(
                            f"{package.directory}: +{marker} names no constant; fix it and import again"
                        )
                    found[match[1]] = value
    return found


def _imports(package: Package) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in package.files():
        found |= _used(file)
    return dict(sorted(found.items()))


def _used(file: GoFile) -> dict[str, str]:
    """The packages whose types the fields and types of a file name."""
    used = {
        text_of(qualifier)
        for declaration in file.types()
        for node in nodes_of(declaration.node, "qualified_type")
        if (qualifier := node.child_by_field_name("package")) is not None
    }
    missing = sorted(used - file.imports.keys())
    if missing:
        raise TreeError(f"{file.path}: {missing[0]} is not imported; fix it and import again")
    return {name: path for name, path in file.imports.items() if name in used}
