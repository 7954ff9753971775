"""Writes the fields of upstream's internal types, which field errors and differences show.

    hack/catalogue/internal_types.py --output apiserver/internal_types.json 1.31.14=TREE 1.32.13=TREE …

A TREE is the source of a release. The internal types (pkg/apis/GROUP/types.go) have no JSON names, so Go
writes their own names, and every field of them. Types with JSON names (metav1) are left out, and those of
resource.k8s.io, which hack/catalogue/device_structs.py reads.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

_STRUCT = re.compile(r"^type (\w+) struct \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^type (\w+) (?!struct|interface|func)(\S+)$", re.MULTILINE)
_FIELD = re.compile(r"^\t(\w+(?:, \w+)*)\s+([^\s`]+)(?:\s*`([^`]*)`)?", re.MULTILINE)
_EMBEDDED = re.compile(r"^\t(\*?[\w.]+)(?:\s*`[^`]*`)?\s*$", re.MULTILINE)
_SCALARS = {
    "string": "s", "bool": "b", "int": "i", "int32": "i", "int64": "i", "float64": "i", "byte": "i",
    "types.UID": "s", "intstr.IntOrString": "i", "resource.Quantity": "q", "metav1.Time": "n",
    "metav1.MicroTime": "n", "metav1.ObjectMeta": "m", "metav1.LabelSelector": "l", "metav1.ListMeta": "e",
    "types.NodeName": "s",
}  # fmt: skip
_GROUPS = (
    "admissionregistration", "apps", "autoscaling", "batch", "certificates", "coordination", "core",
    "discovery", "flowcontrol", "networking", "node", "policy", "rbac", "scheduling", "storage",
)  # fmt: skip


class _Release:
    def __init__(self, tree: Path) -> None:
        self.structs: dict[str, str] = {}
        self._named: dict[str, str] = {}
        for group in _GROUPS:
            for file in sorted((tree / "pkg/apis" / group).glob("*.go")):
                if not file.name.endswith("_test.go") and not file.name.startswith(("zz_", "doc.go")):
                    self._read(group, file.read_text())

    def _read(self, group: str, source: str) -> None:
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.DOTALL)
        self.structs |= {f"{group}.{name}": body for name, body in _STRUCT.findall(text)}
        self._named |= {f"{group}.{name}": kind for name, kind in _NAMED.findall(text)}

    def _sort(self, text: str, group: str) -> str:
        """One letter, or a type with a mark before it, for the way in which a field is shown."""
        for mark, sign in (("*", "*"), ("[]", "["), ("map[", "{")):
            if text.startswith(mark):
                inner = self._sort(text.partition("]")[2] if mark == "map[" else text[len(mark) :], group)
                return sign + inner if "." in inner or (mark == "*" and inner in {"m", "l"}) else "n"
        if text in _SCALARS:
            return _SCALARS[text]
        name = text.replace("api.", "core.") if "." in text else f"{group}.{text}"
        if name in self.structs:
            return name
        if name in self._named:
            return self._sort(self._named[name], name.partition(".")[0])
        return "e"  # a struct with JSON names

    def fields(self, name: str) -> list[list[str]]:
        """Fields of embedded structs are among a struct's own; there are none if it has JSON names."""
        group, found = name.partition(".")[0], []
        for line in self.structs[name].splitlines():
            if match := _EMBEDDED.match(line):
                full = match[1].replace("api.", "core.") if "." in match[1] else f"{group}.{match[1]}"
                if full.endswith(".ObjectMeta"):
                    found.append(["ObjectMeta", "m"])
                elif full in self.structs:
                    found += self.fields(full)
            elif match := _FIELD.match(line):
                if "json:" in (match[3] or ""):
                    return []
                found += [[one, self._sort(match[2], group)] for one in match[1].split(", ")]
        return found


def types_of(tree: Path) -> dict[str, list[list[str]]]:
    """Pairs the Go name of each field with its sort or type, by internal struct."""
    release = _Release(tree)
    return {name: shape for name in sorted(release.structs) if (shape := release.fields(name))}


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
    types = history({release.rpartition(".")[0]: types_of(Path(tree)) for release, tree in trees.items()})
    about = (
        "Fields of upstream's internal types, in Go's order with their sort, from the first minor with them."
    )
    rows = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(steps, separators=(',', ':'))}" for name, steps in types.items()
    )
    head = f'"origin":{json.dumps(origin)},\n"about":{json.dumps(about)}'
    arguments.output.write_text(f'{{{head},\n"types":{{\n{rows}\n}}}}\n')


if __name__ == "__main__":
    main()
