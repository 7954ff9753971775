"""The data files that the generator makes of its inputs, as texts by path in the repository."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kubeskew.releases.catalogue.assembly import catalogue
from kubeskew.releases.catalogue.gates import gate_table
from kubeskew.releases.catalogue.inputs import Inputs
from kubeskew.releases.catalogue.preview import preview

GATES = "apimachinery/data/gates.json"
CATALOGUE = "apimachinery/data/catalogue.json"
PREVIEWS = "apimachinery/data/previews"


def data_files(inputs: Inputs, previews: Path) -> Iterator[tuple[str, str]]:
    """Pairs each file's path with its text. `previews` is the folder of hand-written descriptions."""
    descriptions = {
        path.stem: yaml.safe_load(path.read_text("utf-8")) for path in sorted(previews.glob("*.yaml"))
    }
    table = gate_table(inputs.table("gates"), {name: one["gates"] for name, one in descriptions.items()})
    yield GATES, gates_text(table)
    facts = {
        name: inputs.table(name)
        for name in ("discovery", "field-gates", "printer-columns", "storage-versions")
    }
    document = catalogue(inputs.documents("types"), inputs.documents("openapi"), facts | {"gates": table})
    yield CATALOGUE, document_text(document)
    for name, description in descriptions.items():
        yield f"{PREVIEWS}/{name}.json", document_text(preview(description))


def gates_text(table: dict[str, Any]) -> str:
    """One line per gate."""
    rows = [f"{json.dumps(name)}:{_compact(row)}" for name, row in table["gates"].items()]
    others = "".join(f',\n"{name}":{_compact(table[name])}' for name in ("dependencies", "previews"))
    body = ",\n".join(rows)
    return f'{{"gates":{{\n{body}\n}}{others}}}\n'


def document_text(document: dict[str, Any]) -> str:
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
