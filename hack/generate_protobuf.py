"""Make `apimachinery/data/protobuf.json`: the protobuf field numbers of the built-in types.

    python hack/generate_protobuf.py DIRECTORY OUTPUT

DIRECTORY holds upstream's `generated.proto` files of one release (k8s.io/api and k8s.io/apimachinery), at
any depth. Numbers never change and are never used again, so the newest release serves for all. Types come
from the catalogue; only embedded structs, which JSON does not show, need the name of theirs.

The result: {definition name: {number: field, or [field, definition] where the field embeds that definition}}.
"""

import json
import re
import sys
from pathlib import Path

_PACKAGE = re.compile(r"^package ([\w.]+);", re.M)
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.M | re.S)
_FIELD = re.compile(r"^  (?:optional|repeated)? ?(map<[^>]+>|[.\w]+) (\w+) = (\d+);", re.M)


def definition(package: str, message: str) -> str:
    """The OpenAPI name of a message: `k8s.io.api.core.v1` Pod is `io.k8s.api.core.v1.Pod`."""
    first, second, *rest = package.split(".")
    return ".".join([second, first, *rest, message])


def embeds(kind: str, name: str) -> bool:
    """Whether a field may be an embedded struct: these are named like their type, or like the end of it."""
    last = kind.rpartition(".")[2]
    return last[:1].isupper() and last.lower().endswith(name.lower())


def messages(text: str) -> dict[str, dict[str, str | list[str]]]:
    """The messages of one file."""
    found = _PACKAGE.search(text)
    if found is None:
        return {}
    package = found[1]
    table: dict[str, dict[str, str | list[str]]] = {}
    for name, body in _MESSAGE.findall(text):
        fields: dict[str, str | list[str]] = {}
        for kind, field, number in _FIELD.findall(body):
            if embeds(kind, field):
                owner, _, message = kind.lstrip(".").rpartition(".")
                fields[number] = [field, definition(owner or package, message)]
            else:
                fields[number] = field
        table[definition(package, name)] = fields
    return table


def main() -> None:
    directory, output = map(Path, sys.argv[1:])
    table: dict[str, dict[str, str | list[str]]] = {}
    for path in sorted(directory.rglob("generated.proto")):
        table |= messages(path.read_text())
    output.write_text(json.dumps(table, separators=(",", ":"), sort_keys=True) + "\n")
    print(f"{len(table)} messages")


if __name__ == "__main__":
    main()
