"""Make `apiserver/decoding/protobuf/numbers.json`: the protobuf field numbers of every built-in type.

    protobuf_numbers.py --catalogue apimachinery/data/catalogue.json \\
        --output apiserver/decoding/protobuf/numbers.json 1.26/ 1.27/ …

Each directory holds the Go sources of one release in the folders of their packages, as in
`k8s.io/api/core/v1/types.go`: of the modules api, apimachinery, apiextensions-apiserver, kube-aggregator.
A number never changes, nor is it used again, so each release only adds. Result:

    {definition name: {JSON name: number, "=definition name": number of an embedded message}}

The fields of an embedded message belong, in JSON, to the object itself (`Volume` and `VolumeSource`).
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from go_sources import GoField, Sources

Numbers = dict[str, int]
_PACKAGE = re.compile(r"^k8s\.io/((?:api|apimachinery|apiextensions-apiserver|kube-aggregator)/.*)\.(\w+)$")
_NUMBER = re.compile(r'protobuf:"\w+,(\d+),')
_JSON = re.compile(r'json:"([^,"]*)')


def definition_name(go_name: str) -> str:
    """`k8s.io/api/core/v1.Pod` → `io.k8s.api.core.v1.Pod`; empty for other modules' types."""
    found = _PACKAGE.match(go_name)
    return f"io.k8s.{found[1].replace('/', '.')}.{found[2]}" if found else ""


def numbers_of(fields: Iterable[GoField]) -> Numbers:
    numbers = {}
    for field in fields:
        number, name = _NUMBER.search(field.tag), _JSON.search(field.tag)
        if number is None or name is None or name[1] == "-":
            continue
        inline = field.embedded and not name[1]
        numbers["=" + definition_name(field.type) if inline else name[1] or field.name] = int(number[1])
    return numbers


def collect(releases: Iterable[Path]) -> dict[str, Numbers]:
    """Raises SystemExit where two releases disagree."""
    table: dict[str, Numbers] = {}
    aliases: dict[str, str] = {}
    for directory in releases:
        sources = Sources(directory)
        aliases |= {definition_name(name): definition_name(other) for name, other in sources.aliases()}
        for go_name, fields in sources.structs():
            name = definition_name(go_name)
            if not name:
                continue
            known = table.setdefault(name, {})
            for field, number in numbers_of(fields).items():
                if known.setdefault(field, number) != number:
                    raise SystemExit(f"{directory}: {name}.{field} is {number}, not {known[field]}")
    for name, other in aliases.items():
        if name and other in table:
            table.setdefault(name, table[other])
    return table


def wanted(table: dict[str, Numbers], published: Iterable[str]) -> dict[str, Numbers]:
    """Published types include those that they embed."""
    names = {name for name in published if name in table}
    more = set(names)
    while more:
        more = {key[1:] for name in more for key in table[name] if key[0] == "="} & table.keys() - names
        names |= more
    for name in names:
        if len(set(table[name].values())) < len(table[name]):
            raise SystemExit(f"{name} has a number twice: {table[name]}")
    return {name: dict(sorted(table[name].items(), key=lambda item: item[1])) for name in sorted(names)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("releases", nargs="+", type=Path)
    parser.add_argument("--catalogue", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    published = json.loads(arguments.catalogue.read_text("utf-8"))["definitions"]
    table = wanted(collect(arguments.releases), published)
    rows = [f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in table.items()]
    arguments.output.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")
    print(f"{len(rows)} types -> {arguments.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
