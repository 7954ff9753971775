"""Write the layout of PodTemplateSpec in Go, which the hash of a template depends on.

    python hack/catalogue/pod_template_structs.py STAGING > controllers/framework/pod_template_structs.json

STAGING is staging/src/k8s.io of kubernetes at the minor whose hashes are wanted. Each struct is written as a
list of its fields in order, [name, JSON name, type]; any other type that has a name, as what it is made of.
"""

import json
import re
import sys
from pathlib import Path

_SOURCES = ("api/core/v1/types.go", "apimachinery/pkg/apis/meta/v1/types.go")
_STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.M | re.S)
_FIELD = re.compile(r'^\t(?:(?P<name>\w+)\s+)?(?P<type>[*\[\]\w.]+)\s+`json:"(?P<json>[^",]*)', re.M)
_NAMED = re.compile(r"^type (\w+) (map\S+|\[\]\S+|string)$", re.M)
_BUILT_IN = {"string", "bool", "int32", "int64", "byte"}


def main(staging: Path) -> None:
    """Prints the structs that PodTemplateSpec is made of."""
    text = "\n".join((staging / source).read_text() for source in _SOURCES)
    bodies = dict(_STRUCT.findall(text))
    named = dict(_NAMED.findall(text))
    found: dict[str, list[tuple[str, str, str]] | str] = {}
    missing = ["v1.PodTemplateSpec"]
    while missing:
        name = missing.pop()
        bare = name.removeprefix("v1.")
        if name in found or name == bare:
            continue
        if bare in named:
            found[name] = _qualified(named[bare])
            missing += _names(named[bare])
        elif bare in bodies:
            fields = [(m["name"], m["json"], _qualified(m["type"])) for m in _FIELD.finditer(bodies[bare])]
            found[name] = [(go or kind.rsplit(".", 1)[-1], known, kind) for go, known, kind in fields]
            missing += [name for _, _, kind in fields for name in _names(kind)]
    lines = (f"{json.dumps(name)}:{json.dumps(found[name], separators=(',', ':'))}" for name in sorted(found))
    print("{", ",\n".join(lines), "}", sep="\n")


def _names(kind: str) -> list[str]:
    return re.findall(r"[\w.]+", _qualified(kind))


def _qualified(kind: str) -> str:
    """Reflection names a type with the package's last name."""
    kind = kind.replace("metav1.", "v1.")
    return re.sub(r"(?<![\w.])(?!map\b)([A-Za-z]\w*)(?![\w.])", _with_package, kind)


def _with_package(match: "re.Match[str]") -> str:
    return match[0] if match[0] in _BUILT_IN else f"v1.{match[0]}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
