"""Writes apimachinery/data/device_structs.json: the structs of resource.k8s.io's internal types.

    python hack/catalogue/device_structs.py RELEASE=TREE …  (trees of Kubernetes, oldest first)

Field errors show whole structs of these types (apimachinery/golang/device_structs.py), and nothing else has
their names and order.
"""

import argparse
import json
import re
from pathlib import Path

GROUPS = {"resource": "", "core": "NodeSelector"}  # with the beginning of the names that are wanted
OUTPUT = Path(__file__).parents[2] / "apimachinery/data/device_structs.json"
ABOUT = (
    "The fields of the internal API types of resource.k8s.io in their order, as [name, type], which errors "
    "show whole: `types` are those of the oldest release, `changes` what later ones add, change or drop."
)
_TYPE = re.compile(r"^type (\w+)(?:\[.*\])? (struct \{|[\w.\[\]*]+)", re.M)
_FIELD = re.compile(r"^\t(\w+(?:, \w+)*)\s+([^\s`/]+(?:\{\})?)")
_EMBEDDED = re.compile(r"^\t([\w.]+)\s*(?:`.*|//.*)?$")
_LOCAL = re.compile(r"(?<![\w.])([A-Z]\w*)")

Types = dict[str, list[list[str]] | str]


def read(tree: Path) -> Types:
    found: Types = {}
    for group, beginning in GROUPS.items():
        text = (tree / f"pkg/apis/{group}/types.go").read_text()
        for match in _TYPE.finditer(text):
            if not match[1].startswith(beginning):
                continue
            name = f"{group}.{match[1]}"
            if match[2] == "struct {":
                found[name] = _fields(text[match.end() : text.index("\n}", match.end() - 2)], group)
            else:
                found[name] = _qualified(match[2], group)
    return found


def _fields(body: str, group: str) -> list[list[str]]:
    fields: list[list[str]] = []
    for line in body.split("\n"):
        embedded = _EMBEDDED.match(line)
        if embedded:
            fields.append(["", _qualified(embedded[1], group)])
        elif (field := _FIELD.match(line)) and not line.lstrip().startswith("//"):
            fields += [[name.strip(), _qualified(field[2], group)] for name in field[1].split(",")]
    return fields


def _qualified(name: str, group: str) -> str:
    return _LOCAL.sub(rf"{group}.\1", name)


def main() -> None:
    origin: dict[str, str] = {}
    base, before, changes = Types(), Types(), {}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("trees", nargs="+", metavar="RELEASE=TREE", help="oldest release first")
    for release, tree in (text.split("=", 1) for text in parser.parse_args().trees):
        minor = release.rpartition(".")[0]
        origin[minor] = release
        now = read(Path(tree))
        if not base:
            base = now
        else:
            changed: dict[str, object] = {name: now[name] for name in now if before.get(name) != now[name]}
            changed |= dict.fromkeys(name for name in before if name not in now)
            changes[minor] = dict(sorted(changed.items()))
        before = now
    document = {"about": ABOUT, "origin": origin, "types": dict(sorted(base.items())), "changes": changes}
    OUTPUT.write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
