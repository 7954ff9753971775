"""Write the layout of PodTemplateSpec in Go, which the hash of a template depends on.

    python hack/catalogue/pod_template_structs.py TREE > controllers/framework/pod_template_structs.json

TREE is the source of the release whose hashes are wanted. Each struct is written as a list of its fields in
order, [name, JSON name, type]; any other type that has a name, as what it is made of.
"""

import json
import sys
from pathlib import Path

from kubeskew.releases.tree.pod_template import pod_template
from kubeskew.releases.tree.source_tree import SourceTree


def main(tree: Path) -> None:
    """Prints the structs that PodTemplateSpec is made of."""
    layout = pod_template(SourceTree(tree))
    lines = (f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in layout.items())
    print("{", ",\n".join(lines), "}", sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
