"""Make `apimachinery/data/openapi.json` of the OpenAPI documents that releases publish.

    openapi_facts.py --output apimachinery/data/openapi.json 1.35.6=DIR 1.36.3=DIR …

DIR is the source of that release, whose `api/openapi-spec` is read. The file holds what the documents say
beyond what the catalogue and the routes that the API server lists make of themselves:

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

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.catalogue.types import META, types_of
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.schema import Schema
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.openapi.definitions import GVK, Renderer
from kubeskew.apiserver.openapi.facts import NOTHING
from kubeskew.releases.catalogue.resources import runs

Document = dict[str, Any]

_ABOUT = (
    "What the OpenAPI documents published with these releases say beyond what the catalogue and the routes "
    "make of themselves; hack/catalogue/openapi_facts.py makes it and documents its shape."
)
# How the names of generated functions begin, by that of their definitions.
_PACKAGES = {
    "k8sio_api_": "io.k8s.api.",
    "api_": "io.k8s.api.",
    "pkg_apis_meta_": "io.k8s.apimachinery.pkg.apis.meta.",
    "pkg_apis_apiextensions_": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.",
    "pkg_apis_apiregistration_": "io.k8s.kube-aggregator.pkg.apis.apiregistration.",
}
_LISTED = ("registered", "returned", "bare")  # sections without values
_SETTINGS = {"AllAlpha": True, "AllBeta": True, "OpenAPIEnums": False}


class Release:
    def __init__(self, directory: Path) -> None:
        self.generated = directory / "pkg" / "generated" / "openapi" / "zz_generated.openapi.go"
        spec = directory / "api" / "openapi-spec"
        self.v2: Document = json.loads((spec / "swagger.json").read_text("utf-8"))
        self.schemas: dict[str, Document] = {}
        for file in sorted((spec / "v3").glob("*_openapi.json")):
            document = json.loads(file.read_text("utf-8"))
            self.schemas |= document["components"].get("schemas", {})

    def registered(self) -> dict[str, Any]:
        """Groups and versions that know DeleteOptions."""
        kinds = self.v2["definitions"][f"{META}DeleteOptions"][GVK]
        return {f"{gvk['group']}/{gvk['version']}".lstrip("/"): 1 for gvk in kinds}

    def returned(self) -> dict[str, Any]:
        """DELETE of these resources answers with the object."""
        found = {}
        for path, item in self.v2["paths"].items():
            operation = item.get("delete", {})
            if operation.get("x-kubernetes-action") != "delete":
                continue
            if operation["responses"]["200"]["schema"]["$ref"].endswith(f"{META}Status"):
                continue
            plural = path.split("/")[-2]
            found[f"{plural}.{operation[GVK]['group']}".rstrip(".")] = 1
        return found

    def required(self) -> dict[str, list[str]]:
        return {name: schema["required"] for name, schema in self.schemas.items() if "required" in schema}

    def bare(self) -> dict[str, Any]:
        """Fields that refer to a definition without a description."""
        return {
            f"{name}.{field}": 1
            for name, schema in self.schemas.items()
            for field, shape in schema.get("properties", {}).items()
            if "$ref" in shape
        }

    def extensions(self, version: Version) -> dict[str, Any]:
        """Returns the extensions that the catalogue does not make."""
        features = Features.of(FeatureGates(version, _SETTINGS)).documents
        types = types_of(version)
        renderer = Renderer(True, types, features, NOTHING)
        found: dict[str, Any] = {}
        for name, schema in self.schemas.items():
            made = renderer.shape(types[name]) if name in types else {}  # the API server makes lists
            places = [(name, schema, made)]
            for field, shape in schema.get("properties", {}).items():
                places.append((f"{name}.{field}", shape, made.get("properties", {}).get(field, {})))
            for place, published, ours in places:
                more = {key: value for key, value in _extensions(published).items() if ours.get(key) != value}
                if extra := _extensions(ours).keys() - published.keys():
                    raise SystemExit(f"{version} {place}: the catalogue has {extra}")
                if more:
                    found[place] = more
        return found

    def enums(self, version: Version) -> dict[str, Any]:
        """Only values that differ from the catalogue's."""
        types = types_of(version)
        generated = dict(_generated_enums(self.generated))
        found: dict[str, Any] = {}
        for name in self.schemas:
            if name not in types:
                continue
            for field, ours in types[name].fields.items():
                values = generated.get(f"{name}.{field}", [])
                if values != _values(ours.schema):
                    found[f"{name}.{field}"] = values
        return found

    def shared(self) -> dict[str, dict[str, str]]:
        """Ends of the names of shared parameters, by options and name."""
        found: dict[str, dict[str, str]] = {}
        for options, parameter in self._used():
            reference = parameter.get("$ref", "").removeprefix("#/parameters/")
            if reference:
                shared = self.v2["parameters"][reference]
                name = shared["name"]
                key = _definition(shared) if name == "body" else "path" if shared["in"] == "path" else options
                found.setdefault(key, {})[name] = reference.removeprefix(f"{name}-")
        return found

    def _used(self) -> Iterator[tuple[str, Document]]:
        for path, item in self.v2["paths"].items():
            operations = [item[method] for method in item if method != "parameters"]
            kinds = {_options_of(path, operation) for operation in operations}
            for parameter in item.get("parameters", ()):
                yield from ((kind, parameter) for kind in kinds)
            for operation in operations:
                kind = _options_of(path, operation)
                yield from ((kind, parameter) for parameter in operation.get("parameters", ()))


def _generated_enums(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Pairs fields that have an enum in the generated definitions with its values."""
    definition = field = ""
    for line in file.read_text("utf-8").splitlines():
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


def _options_of(path: str, operation: Document) -> str:
    action = operation.get("x-kubernetes-action", "")
    if action == "connect":
        return str(operation[GVK]["kind"])
    if path.endswith("/log"):
        return "PodLogOptions"
    return "PatchOptions" if action == "patch" else ""


def _definition(parameter: Document) -> str:
    return str(parameter["schema"]["$ref"]).removeprefix("#/definitions/")


def _extensions(schema: Document) -> Document:
    return {key: value for key, value in schema.items() if key.startswith("x-") and key != GVK}


def _merged_order(lists: Iterable[list[str]]) -> list[str]:
    """All releases keep to the order; `lists` begins with the newest."""
    merged: list[str] = []
    for fields in lists:
        for position, field in enumerate(fields):
            if field not in merged:
                merged.insert(merged.index(fields[position - 1]) + 1 if position else 0, field)
    for fields in lists:
        if sorted(fields, key=merged.index) != fields:
            raise SystemExit(f"no order for {lists}")
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


def facts(releases: dict[Version, Release]) -> Document:
    by_minor = {version.minor: release for version, release in releases.items()}
    document: Document = {
        "about": _ABOUT,
        "origin": {f"1.{version.minor}": str(version) for version in releases},
    }
    for section in _LISTED:
        found = {minor: getattr(release, section)() for minor, release in by_minor.items()}
        document[section] = _histories(found, listed=True)
    orders: dict[str, list[list[str]]] = {}
    for minor in sorted(by_minor, reverse=True):
        for name, fields in by_minor[minor].required().items():
            orders.setdefault(name, []).append(fields)
    merged = {name: _merged_order(lists) for name, lists in sorted(orders.items())}
    document["order"] = {name: fields for name, fields in merged.items() if fields != sorted(fields)}
    document["extensions"] = _histories(
        {version.minor: release.extensions(version) for version, release in releases.items()}
    )
    document["enums"] = _histories(
        {version.minor: release.enums(version) for version, release in releases.items()}
    )
    tables = _without_repetition({minor: release.shared() for minor, release in by_minor.items()})
    options = sorted({name for table in tables.values() for name in table})
    shared = {
        name: _histories({minor: table.get(name, {}) for minor, table in tables.items()}) for name in options
    }
    document["shared"] = {name: ends for name, ends in shared.items() if ends}
    return document


def text(document: Document) -> str:
    """Entries of sections have a line each."""
    parts = []
    for section, content in document.items():
        if isinstance(content, dict) and section != "origin":
            rows = [f"{json.dumps(key)}:{_compact(value)}" for key, value in content.items()]
            parts.append(f"{json.dumps(section)}:{{\n" + ",\n".join(rows) + "\n}")
        else:
            parts.append(f"{json.dumps(section)}:{_compact(content)}")
    return "{" + ",\n".join(parts) + "}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the file to write")
    parser.add_argument("releases", nargs="+", metavar="RELEASE=DIR", help="a release and its source")
    arguments = parser.parse_args()
    releases = {}
    for each in arguments.releases:
        release, _, directory = each.partition("=")
        releases[Version.parse(release)] = Release(Path(directory))
    document = facts(dict(sorted(releases.items(), key=lambda pair: pair[0].minor)))
    arguments.output.write_text(text(document), "utf-8")
    print(f"{len(releases)} releases -> {arguments.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
