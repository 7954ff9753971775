"""Makes a release of a Kubernetes source tree: reads its subjects, assembles the catalogue, reports the rest.

    files = read_release(tree, name, base, progress)

`files` has the contents of the release's directory by file name:

    catalogue.json       types, resources, storage versions, columns (catalogue/assembly.py has the shape)
    gates.json           {"gates": {name: [stage, default, locked]}, "dependencies": {name: [names]}}
    default_roles.json   roles and bindings of a fresh cluster
    openapi.json         what the published documents say beyond the catalogue
    descriptions.json    prose of definitions and fields
    columns.json         prose of table columns
    numbers.json, internal_types.json, device_structs.json, json_fields.json
                         layouts of Go structs: protobuf numbers, names in errors, order in JSON
    code.json            digests of the source files whose behaviour kubeskew has from the base

Nothing of a tree is executed.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kubeskew.apimachinery import gates as gate_table
from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.catalogue.json_fields import FILE as FIELDS_FILE
from kubeskew.apimachinery.catalogue.types import Types
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.versions import Version, minor_of
from kubeskew.apiserver.authorization import default_roles
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.openapi import facts
from kubeskew.releases.catalogue.assembly import assembled, read_releases
from kubeskew.releases.catalogue.defaults import with_defaults, without_defaults
from kubeskew.releases.catalogue.resources import resource_row
from kubeskew.releases.catalogue.validation_tags import TagError, unfollowed
from kubeskew.releases.directory import ImportedRelease
from kubeskew.releases.tree import (
    code_files,
    defaults,
    device_structs,
    discovery,
    document_facts,
    documents,
    gates,
    go_types,
    internal_types,
    json_fields,
    printer_columns,
    protobuf_numbers,
    resource_gates,
    roles,
    storage_versions,
)
from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.source_tree import SourceTree

Document = dict[str, Any]
Progress = Callable[[str], None]
CODE = "code.json"
_DESCRIPTIONS = "descriptions.json"
# Readers of files that the tree alone decides.
_SUBJECTS: Mapping[str, Callable[[SourceTree], Any]] = {
    default_roles.FILE: roles.roles,
    _DESCRIPTIONS: documents.descriptions,
    CODE: code_files.code_files,
    "columns.json": printer_columns.column_descriptions,
    "internal_types.json": internal_types.internal_types,
    "device_structs.json": device_structs.device_structs,
}
_GENERAL = ("status", "scale")  # subresources that need no code of their kind
_ALWAYS = 99  # a last minor that no release reaches


class Reading(NamedTuple):
    """The facts that the readers made of a tree."""

    types: Document
    openapi: Document
    discovery: Document
    known_kinds: list[GroupVersionKind]
    gates: Document
    resource_gates: Mapping[str, str]
    storage: Mapping[str, str]
    columns: Mapping[str, list[list[Any]]]
    defaults: Document


def read_release(
    tree: SourceTree, name: str, base: Version, progress: Progress
) -> tuple[ImportedRelease, dict[str, Any]]:
    """Raises TreeError for what a reader needs and cannot read."""
    minor = minor_of(name)
    progress(f"reading the API's types and documents of {tree.root}")
    served = discovery.discovery(tree)
    reading = Reading(
        go_types.types(tree),
        documents.openapi(tree),
        served,
        discovery.known_kinds(tree, served),
        gates.gates(tree),
        resource_gates.resource_gates(tree),
        storage_versions.storage_versions(tree),
        printer_columns.printer_columns(tree),
        defaults.defaults(tree),
    )
    progress("assembling the catalogue")
    catalogue = catalogue_of(reading, minor, base)
    files: dict[str, Any] = {
        data.FILE: catalogue,
        gate_table.FILE: gates_file(reading.gates),
    }
    progress("reading roles, documents and Go structs")
    for file, read in _SUBJECTS.items():
        files[file] = read(tree)
    files["numbers.json"] = protobuf_numbers.needed(
        protobuf_numbers.protobuf_numbers(tree), catalogue["definitions"]
    )
    files[FIELDS_FILE.name] = json_fields.json_fields(tree, catalogue["definitions"])
    files[facts.FILE.name] = _documents(tree, catalogue, minor, base)
    release = ImportedRelease(
        name, str(base), tree.minor, tree.commit, counts(files), reported(reading, catalogue, base)
    )
    return release, {file: content for file, content in files.items() if content is not None}


def catalogue_of(reading: Reading, minor: int, base: Version) -> Document:
    """The catalogue of the tree as that of one release, of that minor."""
    try:
        definitions = read_releases({minor: reading.types}, {minor: reading.openapi})[minor]
    except TagError as error:
        raise TreeError(f"a tag of declarative validation cannot be read: {error}") from None
    except ValueError as error:
        raise TreeError(f"the tree's types cannot be imported: {error}") from None
    definitions = with_defaults(definitions, _fields_of(base), reading.defaults)
    rows = [
        resource_row(fact, minor, minor, _gates_of_resources(reading.resource_gates))
        for fact in reading.discovery["resources"]
    ]
    rows += _known_rows(reading, minor, base)
    return assembled(
        {minor: definitions},
        {
            name: {"first": minor, "last": minor}
            for name in (*reading.gates["gates"], *reading.gates["later"])
        },
        groups=[[minor, minor, reading.discovery["groupOrder"]]],
        resources=rows,
        storage={key: [[minor, minor, version]] for key, version in sorted(reading.storage.items())},
        field_gates=_field_gates(base),
        columns={key: [[minor, minor, columns]] for key, columns in sorted(reading.columns.items())},
    )


def _fields_of(base: Version) -> dict[str, Document]:
    """The fields of the base's definitions."""
    catalogue, minor, _ = data.release(base)
    return {
        name: {
            "fields": {
                field: history
                for field, history in entry.get("f", {}).items()
                if data.at(history, minor) is not None
            }
        }
        for name, entry in catalogue["definitions"].items()
        if data.within(entry["in"], minor)
    }


def _definitions(catalogue: Document) -> dict[str, Document]:
    """The definitions of a catalogue of one release, with the specs of their fields."""
    specs = catalogue["specs"]
    return {
        name: {
            "fields": {
                field: specs[history if isinstance(history, int) else history[0][2]]
                for field, history in entry.get("f", {}).items()
            }
        }
        for name, entry in catalogue["definitions"].items()
    }


def _field_gates(base: Version) -> dict[str, list[str]]:
    """Gates of the base's fields: a tree has no marker where strategies drop a field by its name, and lets
    markers go before gates."""
    catalogue, minor, _ = data.release(base)
    found = {}
    for name, entry in catalogue["definitions"].items():
        for field, history in entry.get("f", {}).items():
            place = data.at(history, minor)
            if place is not None and "g" in catalogue["specs"][place]:
                found[f"{name.removeprefix('io.k8s.api.')}.{field}"] = catalogue["specs"][place]["g"]
    return found


def _documents(tree: SourceTree, catalogue: Document, minor: int, base: Version) -> Document:
    """The contents of openapi.json."""
    features = Features.of(FeatureGates(base, {"AllAlpha": True, "AllBeta": True, "OpenAPIEnums": False}))
    published = document_facts.document_facts(tree, Types(catalogue, minor), features.documents)
    return document_facts.history({Version(minor): published})


def _gates_of_resources(resource_gates: Mapping[str, str]) -> dict[str, list[list[Any]]]:
    return {name: [[0, _ALWAYS, gate]] for name, gate in sorted(resource_gates.items())}


def _known_rows(reading: Reading, minor: int, base: Version) -> list[Document]:
    """Rows of versions that the tree still decodes and serves no more, as the base had them."""
    document, _, _ = data.release(base)
    newest: dict[tuple[str, str, str], Document] = {}
    for row in document["resources"]:
        if row["in"][0] <= base.minor:
            newest[row["g"], row["v"], row["k"]] = row
    kinds = [newest[kind] for kind in reading.known_kinds if kind in newest]
    return [{**row, "in": [minor - 1, minor - 1], "known": minor} for row in kinds]


def gates_file(facts: Document) -> Document:
    """The contents of gates.json."""
    return {
        "gates": {
            name: [spec["stage"], int(spec["default"]), int(spec["locked"])]
            for name, spec in sorted(facts["gates"].items())
        },
        "dependencies": dict(sorted(facts["dependencies"].items())),
        "later": facts["later"],
    }


def counts(files: Mapping[str, Any]) -> dict[str, int]:
    """Numbers for people, by subject."""
    catalogue = files[data.FILE]
    return {
        "types": len(catalogue["definitions"]),
        "fields": sum(len(entry.get("f", ())) for entry in catalogue["definitions"].values()),
        "declared rules": sum(len(entry.get("v", ())) for entry in catalogue["definitions"].values()),
        "resources": len(catalogue["resources"]),
        "gates": len(files[gate_table.FILE]["gates"]),
        "clusterRoles": len((files[default_roles.FILE] or {}).get("clusterRoles", ())),
        "descriptions": len(files[_DESCRIPTIONS]["definitions"]),
    }


def reported(reading: Reading, catalogue: Document, base: Version) -> dict[str, list[str]]:
    """By subject, what the tree has and kubeskew has no code for, or could not read."""
    document, minor, _ = data.release(base)
    served = {
        f"{row['r']}.{row['g']}".rstrip(".")
        for row in document["resources"]
        if row["in"][0] <= minor <= row["in"][1]
    }
    own = {f"{row['r']}.{row['g']}".rstrip("."): 1 for row in catalogue["resources"]}
    served_below = {
        f"{row['r']}.{row['g']}".rstrip(".") + f"/{below}"
        for row in document["resources"]
        if row["in"][0] <= minor <= row["in"][1]
        for below in row.get("sub", ())
    }
    own_below = {
        f"{row['r']}.{row['g']}".rstrip(".") + f"/{below}"
        for row in catalogue["resources"]
        for below in row.get("sub", ())
        if below not in _GENERAL
    }
    base_gates = FeatureGates(base)
    named = {
        gate
        for package in reading.types["types"].values()
        for declared in package.values()
        for field in declared.get("fields", {}).values()
        for marker in field.get("markers", ())
        if marker.startswith("featureGate=")
        for gate in marker.removeprefix("featureGate=").split(",")
    }
    variations = reading.gates["variations"]
    found = {
        "resources without code of their own here": sorted(own.keys() - served),
        "subresources without code of their own here": sorted(own_below - served_below),
        "gates that the base does not have": sorted(
            name for name in reading.gates["gates"] if base_gates.spec(name) is None
        ),
        "gates that fields name and no component registers": sorted(
            named - reading.gates["gates"].keys() - {*reading.gates["later"]}
        ),
        "gates that are registered for later minors alone": reading.gates["later"],
        "gates that are not everywhere the same": [f"{name} ({text})" for name, text in variations.items()],
        "new fields without the defaults that functions give them": without_defaults(
            _definitions(catalogue), _fields_of(base), reading.defaults
        ),
        "fields with declared checks that are code": [
            f"{package}.{name}.{field}"
            for package, declarations in reading.types["types"].items()
            for name, declared in declarations.items()
            for field, content in declared.get("fields", {}).items()
            if unfollowed(content.get("markers", ()))
        ],
    }
    return {subject: names for subject, names in found.items() if names}
