"""Facts of a tree's OpenAPI documents beyond what its catalogue and the API server's routes make of
themselves.

`document_facts(…)` has the facts of one release, and `history(…)` those of several in the shape that
`kubeskew/apiserver/openapi/facts.py` reads; an imported release's document has one release alone:

    origin      the releases that were read, by minor
    registered  groups and versions that have DeleteOptions and WatchEvent
    returned    `plural.group` whose DELETE answers with the object, not with a Status
    order       the required fields of a definition, as its Go struct lists them, where that is not by name
    bare        `definition.field`: references without a description
    extensions  extensions of a definition or `definition.field` that the catalogue does not know
    enums       values of `definition.field` that differ from the catalogue's; none where it shows none (of
                the generated definitions, for the published documents are without them)
    shared      the end of a parameter's name among the shared ones of v2 (a hash of its text), by the options
                or the body's definition that it belongs to, `path` for those of paths, else by nothing

What holds in all releases that were read is 1, or the value itself if it is no list, else a list of spans of
minors.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubeskew.apimachinery.catalogue.types import META
from kubeskew.apimachinery.schema import Schema
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import DocumentFeatures
from kubeskew.apiserver.openapi.definitions import GVK, Renderer
from kubeskew.apiserver.openapi.descriptions import NOTHING as NO_TEXTS
from kubeskew.apiserver.openapi.facts import NOTHING
from kubeskew.releases.catalogue.resources import runs
from kubeskew.releases.tree.documents import V2
from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.source_tree import SourceTree

Document = dict[str, Any]

_GENERATED = "pkg/generated/openapi/zz_generated.openapi.go"
# How the names of generated functions begin, by that of their definitions.
_PACKAGES = {
    "k8sio_api_": "io.k8s.api.",
    "api_": "io.k8s.api.",
    "pkg_apis_meta_": "io.k8s.apimachinery.pkg.apis.meta.",
    "pkg_apis_apiextensions_": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.",
    "pkg_apis_apiregistration_": "io.k8s.kube-aggregator.pkg.apis.apiregistration.",
}
_LISTED = ("registered", "returned", "bare")  # sections without values


def document_facts(tree: SourceTree, types: Mapping[str, Schema], features: DocumentFeatures) -> Document:
    """`types` are those of the release's own catalogue; `features` have no enums in documents."""
    v2 = tree.json(V2)
    try:
        schemas = dict(_schemas(tree))
        return {
            "registered": _registered(v2),
            "returned": _returned(v2),
            "order": {name: schema["required"] for name, schema in schemas.items() if "required" in schema},
            "bare": _bare(schemas),
            "extensions": _extensions(schemas, types, features),
            "enums": _enums(schemas, types, tree.file(_GENERATED)),
            "shared": _shared(v2),
        }
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise TreeError(
            f"{tree.root / 'api/openapi-spec'}: these are no OpenAPI documents of Kubernetes ({reason}); "
            "run hack/update-openapi-spec.sh and import again"
        ) from None


def history(releases: Mapping[Version, Document]) -> Document:
    """`releases` have the facts of one release each, of different minors."""
    by_minor = {version.minor: releases[version] for version in sorted(releases, key=lambda v: v.minor)}
    document: Document = {"origin": {f"1.{version.minor}": str(version) for version in releases}}
    for section in _LISTED:
        found = {minor: facts[section] for minor, facts in by_minor.items()}
        document[section] = _histories(found, listed=True)
    orders: dict[str, list[list[str]]] = {}
    for minor in sorted(by_minor, reverse=True):
        for name, fields in by_minor[minor]["order"].items():
            orders.setdefault(name, []).append(fields)
    merged = {name: _merged_order(name, lists) for name, lists in sorted(orders.items())}
    document["order"] = {name: fields for name, fields in merged.items() if fields != sorted(fields)}
    for section in ("extensions", "enums"):
        document[section] = _histories({minor: facts[section] for minor, facts in by_minor.items()})
    tables = _without_repetition({minor: facts["shared"] for minor, facts in by_minor.items()})
    options = sorted({name for table in tables.values() for name in table})
    shared = {
        name: _histories({minor: table.get(name, {}) for minor, table in tables.items()}) for name in options
    }
    document["shared"] = {name: ends for name, ends in shared.items() if ends}
    return document


def _schemas(tree: SourceTree) -> Iterator[tuple[str, Document]]:
    """The definitions of all documents of v3; of equal names, the last document's holds."""
    folder = tree.root / "api/openapi-spec/v3"
    for file in sorted(folder.glob("*_openapi.json")):
        document = tree.json(str(file.relative_to(tree.root)))
        yield from document.get("components", {}).get("schemas", {}).items()


def _registered(v2: Document) -> dict[str, Any]:
    kinds = v2["definitions"][f"{META}DeleteOptions"][GVK]
    return {f"{gvk['group']}/{gvk['version']}".lstrip("/"): 1 for gvk in kinds}


def _returned(v2: Document) -> dict[str, Any]:
    found = {}
    for path, item in v2["paths"].items():
        operation = item.get("delete", {})
        if operation.get("x-kubernetes-action") != "delete":
            continue
        if operation["responses"]["200"]["schema"]["$ref"].endswith(f"{META}Status"):
            continue
        plural = path.split("/")[-2]
        found[f"{plural}.{operation[GVK]['group']}".rstrip(".")] = 1
    return found


def _bare(schemas: Mapping[str, Document]) -> dict[str, Any]:
    return {
        f"{name}.{field}": 1
        for name, schema in schemas.items()
        for field, shape in schema.get("properties", {}).items()
        if "$ref" in shape
    }


def _extensions(
    schemas: Mapping[str, Document], types: Mapping[str, Schema], features: DocumentFeatures
) -> dict[str, Any]:
    renderer = Renderer(True, types, features, NOTHING, NO_TEXTS)
    found: dict[str, Any] = {}
    for name, schema in schemas.items():
        made = renderer.shape(types[name]) if name in types else {}  # the API server makes lists
        places = [(name, schema, made)]
        for field, shape in schema.get("properties", {}).items():
            places.append((f"{name}.{field}", shape, made.get("properties", {}).get(field, {})))
        for place, published, ours in places:
            more = {key: value for key, value in _marked(published).items() if ours.get(key) != value}
            if more:
                found[place] = more
    return found


def _marked(schema: Document) -> Document:
    return {key: value for key, value in schema.items() if key.startswith("x-") and key != GVK}


def _enums(
    schemas: Mapping[str, Document], types: Mapping[str, Schema], generated: str
) -> dict[str, list[str]]:
    published = dict(_generated_enums(generated))
    found: dict[str, list[str]] = {}
    for name in schemas:
        if name not in types:
            continue
        for field, ours in types[name].fields.items():
            values = published.get(f"{name}.{field}", [])
            if values != _values(ours.schema):
                found[f"{name}.{field}"] = values
    return found


def _generated_enums(source: str) -> Iterator[tuple[str, list[str]]]:
    """Pairs fields that have an enum in the generated definitions with its values."""
    definition = field = ""
    for line in source.splitlines():
        if found := re.match(r"func schema_(\w+)\(", line):
            packages = ((after, before) for before, after in _PACKAGES.items() if found[1].startswith(before))
            after, before = next(packages, ("", ""))
            definition = after + found[1].removeprefix(before).replace("_", ".")
        elif found := re.match(r"\t{5}\"([^\"]+)\": \{$", line):
            field = found[1]
        elif found := re.search(r"Enum:\s+\[\]interface\{\}\{(.*?)\}", line):
            yield f"{definition}.{field}", re.findall(r'"([^"]*)"', found[1])


def _values(schema: Schema) -> list[str]:
    while not schema.enum and schema.items is not None and not schema.name:
        schema = schema.items
    return list(schema.enum)


def _shared(v2: Document) -> dict[str, dict[str, str]]:
    """Ends of the names of shared parameters, by options and name."""
    found: dict[str, dict[str, str]] = {}
    for options, parameter in _used(v2):
        reference = parameter.get("$ref", "").removeprefix("#/parameters/")
        if reference:
            shared = v2["parameters"][reference]
            name = shared["name"]
            key = _definition(shared) if name == "body" else "path" if shared["in"] == "path" else options
            found.setdefault(key, {})[name] = reference.removeprefix(f"{name}-")
    return found


def _used(v2: Document) -> Iterator[tuple[str, Document]]:
    for path, item in v2["paths"].items():
        operations = [item[method] for method in item if method != "parameters"]
        kinds = {_options_of(path, operation) for operation in operations}
        for parameter in item.get("parameters", ()):
            yield from ((kind, parameter) for kind in sorted(kinds))
        for operation in operations:
            kind = _options_of(path, operation)
            yield from ((kind, parameter) for parameter in operation.get("parameters", ()))


def _options_of(path: str, operation: Document) -> str:
    action = operation.get("x-kubernetes-action", "")
    if action == "connect":
        return str(operation[GVK]["kind"])
    if path.endswith("/log"):
        return "PodLogOptions"
    return "PatchOptions" if action == "patch" else ""


def _definition(parameter: Document) -> str:
    return str(parameter["schema"]["$ref"]).removeprefix("#/definitions/")


def _merged_order(name: str, lists: Iterable[list[str]]) -> list[str]:
    """All releases keep to the order; `lists` begins with the newest."""
    merged: list[str] = []
    for fields in lists:
        for position, field in enumerate(fields):
            if field not in merged:
                merged.insert(merged.index(fields[position - 1]) + 1 if position else 0, field)
    for fields in lists:
        if sorted(fields, key=merged.index) != fields:
            raise TreeError(f"{name}: the releases list required fields in different orders: {lists}")
    return merged


def _history(values: dict[int, Any], minors: list[int], *, listed: bool) -> Any:
    """A value that never changed, else its spans; with `listed`, all values are 1."""
    first = next(iter(values.values()))
    if (
        list(values) == minors
        and all(value == first for value in values.values())
        and not isinstance(first, list)
    ):
        return first
    texts = runs({minor: json.dumps(value, sort_keys=True) for minor, value in values.items()})
    return [[first, last] if listed else [first, last, json.loads(text)] for first, last, text in texts]


def _histories(sections: dict[int, dict[str, Any]], *, listed: bool = False) -> Document:
    minors = sorted(sections)
    names = sorted({name for section in sections.values() for name in section})
    return {
        name: _history(
            {minor: sections[minor][name] for minor in minors if name in sections[minor]},
            minors,
            listed=listed,
        )
        for name in names
    }


def _without_repetition(tables: dict[int, dict[str, dict[str, str]]]) -> dict[int, dict[str, dict[str, str]]]:
    """Keeps the commonest end of each name under no options, and only other ends under some."""
    made = {}
    for minor, table in tables.items():
        ends: dict[str, Counter[str]] = {}
        for options in sorted(table):
            for name, end in table[options].items():
                ends.setdefault(name, Counter())[end] += 1
        usual = {
            name: table.get("", {}).get(name) or counted.most_common(1)[0][0]
            for name, counted in ends.items()
            if name != "body"
        }
        made[minor] = {"": usual} | {
            options: {name: end for name, end in names.items() if end != usual.get(name)}
            for options, names in table.items()
            if options
        }
    return made
