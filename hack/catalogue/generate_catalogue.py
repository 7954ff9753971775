"""Make the data files of `apimachinery/data` from facts about upstream.

    generate_catalogue.py gates --facts DIR --output apimachinery/data/gates.json
    generate_catalogue.py catalogue --types types-1.36.json … --openapi openapi-1.36.json … --facts DIR \\
        --gates apimachinery/data/gates.json --output apimachinery/data/catalogue.json

    generate_catalogue.py preview --description hack/catalogue/previews/1.25+kep3063.yaml \\
        --output apimachinery/data/previews/1.25+kep3063.json

`DIR` holds feature-gates.json, discovery.json, printer-columns.json and storage-versions.json. All releases
are given at once, one file each; a release without OpenAPI uses the nearest one's.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from kubeskew.releases.catalogue.assembly import catalogue
from kubeskew.releases.catalogue.gates import gate_table, minor
from kubeskew.releases.catalogue.preview import preview

_GATE_RELEASES = Path(__file__).parent / "gate-releases.json"


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def make_gates(arguments: argparse.Namespace) -> None:
    table = gate_table(read(arguments.facts / "feature-gates.json"), read(_GATE_RELEASES))
    rows = [
        f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in table["gates"].items()
    ]
    others = "".join(f',\n"{name}":{_compact(table[name])}' for name in ("dependencies", "previews"))
    body = ",\n".join(rows)
    arguments.output.write_text(f'{{"gates":{{\n{body}\n}}{others}}}\n', "utf-8")
    progress(f"{len(rows)} gates -> {arguments.output}")


def _by_minor(paths: list[Path]) -> dict[int, Any]:
    documents = {}
    for path in paths:
        document = read(path)
        release = minor(document["version"])
        if release is None:
            raise SystemExit(f"{path}: no release in `version`")
        documents[release] = document
        progress(f"read {path.name}")
    return documents


def _lines(document: dict[str, Any]) -> str:
    """One line per item of the large sections, so that a change is readable."""
    parts = []
    for section, content in document.items():
        if isinstance(content, dict):
            rows = [f"{json.dumps(key)}:{_compact(value)}" for key, value in content.items()]
            parts.append(f"{json.dumps(section)}:{{\n" + ",\n".join(rows) + "\n}")
        elif not isinstance(content, list):
            parts.append(f"{json.dumps(section)}:{_compact(content)}")
        else:
            rows = [_compact(value) for value in content]
            parts.append(f"{json.dumps(section)}:[\n" + ",\n".join(rows) + "\n]")
    return "{" + ",\n".join(parts) + "}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def make_catalogue(arguments: argparse.Namespace) -> None:
    names = ("discovery", "printer-columns", "storage-versions")
    facts = {name: read(arguments.facts / f"{name}.json") for name in names}
    facts["gates"] = read(arguments.gates)
    document = catalogue(_by_minor(arguments.types), _by_minor(arguments.openapi), facts)
    arguments.output.write_text(_lines(document), "utf-8")
    progress(
        f"{len(document['definitions'])} definitions, {len(document['specs'])} distinct fields, "
        f"{len(document['resources'])} resource rows -> {arguments.output}"
    )


def make_preview(arguments: argparse.Namespace) -> None:
    document = preview(yaml.safe_load(arguments.description.read_text("utf-8")))
    arguments.output.write_text(_lines(document), "utf-8")
    progress(f"{len(document['definitions'])} definitions -> {arguments.output}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    gates = commands.add_parser("gates", help="the table of feature gates")
    gates.add_argument("--facts", type=Path, required=True, help="directory of the facts")
    gates.add_argument("--output", type=Path, required=True, help="the file to write")
    gates.set_defaults(run=make_gates)
    types = commands.add_parser("catalogue", help="all types and resources of all releases")
    types.add_argument("--types", type=Path, nargs="+", required=True, help="types-*.json, one per release")
    types.add_argument(
        "--openapi", type=Path, nargs="+", required=True, help="openapi-*.json, one per release"
    )
    types.add_argument("--facts", type=Path, required=True, help="directory of the facts")
    types.add_argument("--gates", type=Path, required=True, help="gates.json as the command `gates` wrote it")
    types.add_argument("--output", type=Path, required=True, help="the file to write")
    types.set_defaults(run=make_catalogue)
    previews = commands.add_parser("preview", help="what a preview release changes")
    previews.add_argument("--description", type=Path, required=True, help="the hand-written description")
    previews.add_argument("--output", type=Path, required=True, help="the file to write")
    previews.set_defaults(run=make_preview)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
