"""Internal types of upstream, which field errors and differences print.

The internal types have no JSON names: Go writes its own names, every field, and null for what is absent.
Their fields are data (`internal_types.json`, made by hack/catalogue/internal_types.py); releases older than
the data have the fields of its first, imported ones have a document of their own. Differences of 1.34 and
later are those of k8s.io/apimachinery/pkg/util/diff/diff.go: lines of indented JSON, as difflib compares
them.
"""

import difflib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.go_formats import as_written
from kubeskew.apimachinery.golang.device_structs import imported_struct
from kubeskew.apimachinery.golang.roundtrip import WithEmpties
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version, entry

_FILE = Path(__file__).with_name("internal_types.json")
_ZEROS: Mapping[str, Any] = {"s": "", "b": False, "i": 0, "q": "0", "n": None, "e": {}, "l": {}, "m": {}}
_HTML = {ord(char): f"\\u{ord(char):04x}" for char in "<>&"}
# JSON names of external fields that the internal ones do not follow.
_RENAMED = {
    "discoverychapauth": "chapAuthDiscovery", "sessionchapauth": "chapAuthSession",
    "cephmonitors": "monitors", "rbdimage": "image", "rbdpool": "pool", "radosuser": "user",
    "datadiskuri": "diskURI", "endpointsname": "endpoints", "lastterminationstate": "lastState",
    "donotuseexternalid": "externalID",
}  # fmt: skip
_IN_SECURITY_CONTEXT = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")

Fields = Mapping[str, list[list[str]]]  # of each type: their names and sorts, in order

_MOST_LINES = 4_000  # of two texts together that are compared line by line


class InternalTypes:
    """Shows values as one release does; with `unified`, differences are of lines, not of structs."""

    def __init__(self, version: Version, *, unified: bool) -> None:
        self._version = version
        self._unified = unified

    @property
    def escapes(self) -> bool:
        """Texts whose Go type has a name are written as JSON, since the same release."""
        return self._unified

    def shown(self, value: Any, sort: str) -> Any:
        """`sort` is a type: `core.PodSpec`, with `*` before it for a pointer, `[` for a list, `{` for a
        map.
        """
        if value is None:
            return self._zero(sort)
        if sort[0] == "*":
            return self.shown(value, sort[1:])
        if sort[0] == "[":
            return [self.shown(item, sort[1:]) for item in value]
        if sort[0] == "{":
            return {name: self.shown(value[name], sort[1:]) for name in sorted(value)}
        if sort in {"l", "m"}:
            return _selector(value) if sort == "l" else _sorted(value)
        if "." not in sort:
            return _sorted(value)
        if sort == "core.PodSpec":
            value = _internal_pod(value)
        empties = value.empties.items() if isinstance(value, WithEmpties) else ()
        given = {name.lower(): item for name, item in (*value.items(), *empties)}
        found: Object = {}
        for name, inner in _fields_of(self._version)[sort]:
            if inner == "m":
                found |= imported_struct(_sorted(value.get("metadata") or {}), "metav1.ObjectMeta")
            else:
                found[name] = self.shown(given.get(_external(name)), inner)
        return found

    def _zero(self, sort: str) -> Any:
        if "." not in sort or sort[0] in "*[{":
            return _ZEROS.get(sort)
        return self.shown({}, sort)

    def difference(self, sort: str, old: Any, new: Any) -> str:
        """Refusals end with it; lists have differences only since 1.34."""
        if not self._unified:
            return _struct_difference(sort, old, new) if isinstance(old, dict) else ""
        before, after = _lines(self.shown(old, sort)), _lines(self.shown(new, sort))
        if len(before) + len(after) > _MOST_LINES:
            return _coarse_difference(before, after)
        lines = difflib.unified_diff(before, after, n=3, lineterm="\n")
        return "".join(list(lines)[2:])  # without the names of files


def _coarse_difference(before: list[str], after: list[str]) -> str:
    """Long texts differ in one hunk: everything between their common beginning and end.

    The time that difflib takes grows with the square of the lines.

    """
    first = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    if first is None:
        if len(before) == len(after):
            return ""
        first = min(len(before), len(after))
    shared = min(len(before), len(after)) - first
    last = next((at for at in range(shared) if before[-1 - at] != after[-1 - at]), shared)
    olds, news = before[first : len(before) - last], after[first : len(after) - last]
    above, below = before[max(0, first - 3) : first], before[len(before) - last :][:3]
    start, around = first - len(above) + 1, len(above) + len(below)
    head = f"@@ -{start},{len(olds) + around} +{start},{len(news) + around} @@\n"
    marked = [*(f" {line}" for line in above), *(f"-{line}" for line in olds), *(f"+{line}" for line in news)]
    return head + "".join([*marked, *(f" {line}" for line in below)])


def _lines(value: Any) -> list[str]:
    text = json.dumps(as_written(value), indent=1, ensure_ascii=False, separators=(",", ": "))
    return [line + "\n" for line in text.translate(_HTML).split("\n")]


def _external(name: str) -> str:
    lowered = name.lower()
    return _RENAMED.get(lowered, lowered).lower()


def _internal_pod(spec: Object) -> Object:
    moved = {name: spec[name] for name in _IN_SECURITY_CONTEXT if name in spec}
    whole = spec.copy()  # with its empty lists
    whole["securityContext"] = {**(spec.get("securityContext") or {}), **moved}
    return whole


def _selector(selector: Object) -> Object:
    shown: Object = {}
    if selector.get("matchLabels"):
        shown["matchLabels"] = _sorted(selector["matchLabels"])
    if selector.get("matchExpressions"):
        shown["matchExpressions"] = [
            {"key": one.get("key") or "", "operator": one.get("operator") or ""}
            | ({"values": one["values"]} if one.get("values") else {})
            for one in selector["matchExpressions"]
        ]
    return shown


def _sorted(value: Any) -> Any:
    return {name: _sorted(value[name]) for name in sorted(value)} if isinstance(value, dict) else value


def _struct_difference(name: str, old: Object, new: Object) -> str:
    """It has go-cmp's layout, not each of its lines."""
    lines = [f"  {name}{{"]
    same = 0
    for field in dict.fromkeys([*old, *new]):
        if old.get(field) == new.get(field):
            same += 1
            continue
        if same:
            lines.append(f"  \t... // {same} identical fields")
            same = 0
        title = field[:1].upper() + field[1:]
        lines += [f"- \t{title}: {_plain(old.get(field))},", f"+ \t{title}: {_plain(new.get(field))},"]
    if same:
        lines.append(f"  \t... // {same} identical fields")
    return "\n".join([*lines, "  }", ""])


def _plain(value: Any) -> str:
    return "nil" if value is None else json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_FILE.read_text())
    return document


def fields_at(minor: int, own: Fields | None) -> Fields:
    """`own` is the document of an imported release, which lies over the fields of its minor."""
    types: dict[str, list[list[Any]]] = _document()["types"]
    shipped = {name: entry({0: steps[0][1], **dict(steps)}, minor) or [] for name, steps in types.items()}
    return {**shipped, **(own or {})}


@lru_cache(maxsize=16)
def _fields_of(version: Version) -> Fields:
    return fields_at(version.base.minor, version.document(_FILE.name))
