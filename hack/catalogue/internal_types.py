"""Writes the fields of upstream's internal types, which field errors and differences show.

    hack/catalogue/internal_types.py --output apiserver/internal_types.json 1.31.14=TREE 1.32.13=TREE …

A TREE is the source of a release; kubeskew/releases/tree/internal_types.py reads it.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from kubeskew.releases.tree.internal_types import internal_types
from kubeskew.releases.tree.source_tree import SourceTree


def history(releases: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Fields stand with the first minor that has them so; a type that went is null."""
    found: dict[str, Any] = {}
    for minor, types in releases.items():
        for name in sorted(found.keys() | types.keys()):
            steps = found.setdefault(name, [])
            shape = types.get(name)
            if (steps[-1][1] if steps else None) != shape:
                steps.append([int(minor.partition(".")[2]), shape])
    return dict(sorted(found.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("trees", nargs="+", metavar="RELEASE=TREE", help="oldest release first")
    arguments = parser.parse_args()
    trees = dict(text.split("=", 1) for text in arguments.trees)
    origin = {release.rpartition(".")[0]: release for release in trees}
    releases = {
        release.rpartition(".")[0]: internal_types(SourceTree(Path(tree))) for release, tree in trees.items()
    }
    types = history(dict(releases))
    about = (
        "Fields of upstream's internal types, in Go's order with their sort, from the first minor with them."
    )
    rows = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(steps, separators=(',', ':'))}" for name, steps in types.items()
    )
    head = f'"origin":{json.dumps(origin, separators=(",", ":"))},\n"about":{json.dumps(about)}'
    arguments.output.write_text(f'{{{head},\n"types":{{\n{rows}\n}}}}\n')


if __name__ == "__main__":
    main()
