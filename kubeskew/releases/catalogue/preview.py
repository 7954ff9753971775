"""A preview release's catalogue: what it changes of the catalogue of the release it is based on.

From a hand-written description (`previews/*.yaml`: Go types, resources, columns, and what goes). `preview(…)`
gives the document of `apimachinery/data/previews/RELEASE.json`, which is laid over the base when loaded:

    base         the minor whose catalogue holds where nothing else is said
    without      {"versions": [group/version]} that are not there
    served       API versions that are on by default although they are alpha or beta
    groups       API groups behind those of the base
    definitions  {name: {"f": {field: spec, or null where the base's field goes},
                         "all": 1 where no field is the base's}}; specs as in types.py
    kinds, resources, storage, columns   as in assembly.py; resources may have a `store`
    copies       {prefix of definitions: prefix of the base's that they are like}; definitions change them
    foreign      {definition: fields that the releases have under the same name with another type}
    numbers      {definition: {JSON name: protobuf number}} of what protobuf_numbers does not know
"""

from typing import Any

from kubeskew.releases.catalogue.resources import kind_definition, resource_row
from kubeskew.releases.catalogue.types import Document, GoTypes, definition_name, go_fields

_COLUMN_TYPES = {"Name": "name"}


def preview(description: Document) -> Document:
    base, like = description["base"], description.get("like", {})
    rows = [_row(fact, base) for fact in description["resources"]]
    stored = [row for row in rows if f"{row['g']}/{row['v']}" not in like]
    return {
        "release": description["release"],
        "base": base,
        "without": {"versions": description["without"]["versions"]},
        "served": description["served"],
        "groups": description["groups"],
        "resources": rows,
        "storage": {f"{row['g']}/{row['k']}": [[base, base, f"{row['g']}/{row['v']}"]] for row in stored},
        "columns": {kind: [[base, base, _columns(names)]] for kind, names in description["columns"].items()},
        "kinds": {f"{r['g']}/{r['v']}/{r['k']}": kind_definition(r["g"], r["v"], r["k"]) for r in rows},
        "copies": dict(_prefixes(*entry) for entry in like.items()),
        "definitions": _definitions(description),
        "foreign": {
            definition_name(package, name): declared["foreign"]
            for package, declarations in description["types"].items()
            for name, declared in declarations.items()
            if "foreign" in declared
        },
        "numbers": _numbers(description["types"]),
    }


def _prefixes(api_version: str, other: str) -> tuple[str, str]:
    """Pairs the prefix of an API version's definitions with that of the version that it is like."""
    group, _, version = api_version.partition("/")
    return kind_definition(group, version, ""), kind_definition(group, other, "")


def _row(fact: Document, base: int) -> Document:
    row = resource_row(fact, base, base, {})
    if "gate" in fact:
        row["gates"] = [[base, base, fact["gate"]]]
    return row | ({"store": fact["store"]} if "store" in fact else {})


def _columns(names: list[str]) -> list[list[Any]]:
    return [[name, "string", _COLUMN_TYPES.get(name, ""), 0] for name in names]


def _definitions(description: Document) -> Document:
    go = GoTypes(description["types"], {"definitions": {}})
    found: Document = {}
    for package, declarations in description["types"].items():
        inlined = {field for declared in declarations.values() for field in declared.get("fields", {})}
        for name, declared in declarations.items():
            if "fields" in declared and f"<inline:{name}>" not in inlined:
                made: Document = {"f": go_fields(go, package, declared)}
                made |= {"doc": declared["doc"]} if "doc" in declared else {}
                found[definition_name(package, name)] = made | ({"all": 1} if "without" in declared else {})
    for name, fields in description["without"]["fields"].items():
        made = found.setdefault(f"io.k8s.api.{name}", {"f": {}})
        made["f"] |= dict.fromkeys(fields)
    return dict(sorted(found.items()))


def _numbers(types: Document) -> Document:
    found = {}
    for package, declarations in types.items():
        for name, declared in declarations.items():
            fields = [_numbered_name(package, field) for field in declared.get("fields", {})]
            guessed = {field: number for number, field in enumerate(filter(None, fields), 1)}
            if numbers := declared.get("numbers", guessed):
                found[definition_name(package, name)] = numbers
    return found


def _numbered_name(package: str, field: str) -> str:
    """Fields have their name in the table of numbers; `=definition` is an embedded message."""
    if not field.startswith("<inline:"):
        return field
    special = {"<inline:metav1.TypeMeta>": "", "<inline:metav1.ObjectMeta>": "metadata"}
    embedded = field.removeprefix("<inline:").removesuffix(">")
    return special.get(field, f"={definition_name(package, embedded)}")
