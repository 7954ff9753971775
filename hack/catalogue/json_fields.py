"""Writes the order of JSON fields in Go's structs, and where they are embedded: patches and errors show both.

    hack/catalogue/json_fields.py --output apimachinery/data/json_fields.json 1.31.14=TREE 1.32.13=TREE …

A TREE is the source of a release; kubeskew/releases/tree/json_fields.py reads it.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from kubeskew.releases.tree.json_fields import json_fields
from kubeskew.releases.tree.source_tree import SourceTree

CATALOGUE = Path(__file__).parents[2] / "apimachinery/data/catalogue.json"


def history(values: dict[str, Any]) -> list[Any]:
    """A value stands with the first minor that has it so; null if it went."""
    steps: list[Any] = []
    for minor, value in values.items():
        if (steps[-1][1] if steps else None) != value:
            steps.append([int(minor.partition(".")[2]), value])
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("trees", nargs="+", metavar="RELEASE=TREE", help="oldest release first")
    arguments = parser.parse_args()
    trees = dict(text.split("=", 1) for text in arguments.trees)
    origin = {release.rpartition(".")[0]: release for release in trees}
    published = json.loads(CATALOGUE.read_text("utf-8"))["definitions"]
    releases = {
        release.rpartition(".")[0]: json_fields(SourceTree(Path(tree)), published)
        for release, tree in trees.items()
    }
    names = sorted({name for found in releases.values() for name in found["structs"]})
    structs = {
        name: history({minor: found["structs"].get(name) for minor, found in releases.items()})
        for name in names
    }
    embedded = history({minor: found.get("embedded") for minor, found in releases.items()})
    about = "JSON fields of Go's structs in order, from the first minor with it; those of =NAME are embedded."
    rows = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(steps, separators=(',', ':'))}" for name, steps in structs.items()
    )
    head = (
        f'"about":{json.dumps(about)},\n"origin":{json.dumps(origin, separators=(",", ":"))},\n'
        f'"embedded":{json.dumps(embedded, separators=(",", ":"))}'
    )
    arguments.output.write_text(f'{{{head},\n"structs":{{\n{rows}\n}}}}\n')


if __name__ == "__main__":
    main()
