"""Add releases to `apiserver/decoding/protobuf/numbers.json`: the protobuf field numbers of built-in types.

    protobuf_numbers.py TREE …

Each TREE is the source of a release; kubeskew/releases/tree/protobuf_numbers.py reads it and says what the
numbers are. A number never changes, nor is it used again, so each release only adds.
"""

import argparse
import json
import sys
from pathlib import Path

from kubeskew.releases.tree.protobuf_numbers import needed, protobuf_numbers
from kubeskew.releases.tree.source_tree import SourceTree

ROOT = Path(__file__).parents[2]
NUMBERS = ROOT / "apiserver/decoding/protobuf/numbers.json"
CATALOGUE = ROOT / "apimachinery/data/catalogue.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE")
    parser.add_argument("--output", type=Path, default=NUMBERS)
    arguments = parser.parse_args()
    published = json.loads(CATALOGUE.read_text("utf-8"))["definitions"]
    table = json.loads(NUMBERS.read_text("utf-8"))
    for path in arguments.trees:
        for name, numbers in protobuf_numbers(SourceTree(path)).items():
            known = table.setdefault(name, {})
            for field, number in numbers.items():
                if known.setdefault(field, number) != number:
                    raise SystemExit(f"{path}: {name}.{field} is {number}, not {known[field]}")
    table = needed(table, published)
    rows = [f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in table.items()]
    arguments.output.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")
    print(f"{len(rows)} types -> {arguments.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
