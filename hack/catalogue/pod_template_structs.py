"""Write the layout of PodTemplateSpec in Go, which the hash of a template depends on.

    python hack/catalogue/pod_template_structs.py TREE > controllers/framework/pod_template_structs.json

TREE is the source of the release whose hashes are wanted. Each struct is written as a list of its fields in
order, [name, JSON name, type]; any other type that has a name, as what it is made of.
"""

import argparse
import json
from pathlib import Path

from kubeskew.releases.tree.pod_template import pod_template
from kubeskew.releases.tree.source_tree import SourceTree


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", type=Path, metavar="TREE")
    layout = pod_template(SourceTree(parser.parse_args().tree))
    lines = (f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in layout.items())
    print("{", ",\n".join(lines), "}", sep="\n")


if __name__ == "__main__":
    main()
