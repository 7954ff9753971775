"""Writes apimachinery/data/device_structs.json: the structs of resource.k8s.io's internal types.

    python hack/catalogue/device_structs.py RELEASE=TREE …  (trees of Kubernetes, oldest first)

Field errors show whole structs of these types (apimachinery/golang/device_structs.py), and nothing else has
their names and order.
"""

import argparse
import json
from pathlib import Path

from kubeskew.releases.tree.device_structs import Structs, device_structs
from kubeskew.releases.tree.source_tree import SourceTree

OUTPUT = Path(__file__).parents[2] / "apimachinery/data/device_structs.json"
ABOUT = (
    "The fields of the internal API types of resource.k8s.io in their order, as [name, type], which errors "
    "show whole: `types` are those of the oldest release, `changes` what later ones add, change or drop."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("trees", nargs="+", metavar="RELEASE=TREE", help="oldest release first")
    arguments = parser.parse_args()
    origin: dict[str, str] = {}
    base, before, changes = Structs(), Structs(), {}
    for release, tree in (text.split("=", 1) for text in arguments.trees):
        minor = release.rpartition(".")[0]
        origin[minor] = release
        now = device_structs(SourceTree(Path(tree)))
        if not base:
            base = now
        else:
            changed: dict[str, object] = {name: now[name] for name in now if before.get(name) != now[name]}
            changed |= dict.fromkeys(name for name in before if name not in now)
            changes[minor] = dict(sorted(changed.items()))
        before = now
    document = {"about": ABOUT, "origin": origin, "types": base, "changes": changes}
    arguments.output.write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
