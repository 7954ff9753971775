"""Formats a pod template as Go prints it, for its hash.

Upstream hashes what go-spew prints of the struct with `%#v`: names and types of all fields, even of unset
ones, so that the text depends on the release. Here it is that of 1.20 in every release, with younger fields
after the others if they are set: so names are those in recordings, and no upgrade changes them.

Source: k8s.io/kubernetes pkg/util/hash/hash.go, 1.20; the structs by hack/pod_template_structs.py.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Format, Quantity

_FILE = Path(__file__).parent / "pod_template_structs.json"
_NO_TIME = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"
_DIGITS = re.compile(r"[+-]?(\d+)(?:\.(\d+))?")
_NIL = "<nil>"


class _Field(NamedTuple):
    name: str
    known: str  # its name in JSON; empty if its fields stand in the object itself
    kind: str


class _Layout(NamedTuple):
    structs: dict[str, list[_Field]]
    shapes: dict[str, str]  # of named types that are no structs


def template_text(template: Object) -> str:
    """Formats a PodTemplateSpec as Go prints it."""
    return _typed("v1.PodTemplateSpec", template)


@functools.cache
def _layout() -> _Layout:
    types = json.loads(_FILE.read_bytes())
    structs = {
        name: [_Field(*field) for field in fields]
        for name, fields in types.items()
        if isinstance(fields, list)
    }
    return _Layout(structs, {name: shape for name, shape in types.items() if isinstance(shape, str)})


def _typed(kind: str, value: Any) -> str:
    if kind.startswith("*"):
        return f"({kind}){_NIL if value is None else _bare(kind[1:], value)}"
    return f"({kind}){_bare(kind, value)}"


def _bare(kind: str, value: Any) -> str:
    """Returns the value without its type, as behind a pointer and in a list."""
    structs, shapes = _layout()
    if kind in structs:
        return f"{{{' '.join(_fields(structs[kind], value or {}))}}}"
    if kind in _PARTICULAR:
        return _PARTICULAR[kind](value)
    shape = shapes.get(kind, kind)
    if shape.startswith("[]"):
        return f"[{' '.join(_bare(shape[2:], item) for item in value)}]" if value else _NIL
    if shape.startswith("map["):
        item = shape.partition("]")[2]
        return (
            f"map[{' '.join(f'{key}:{_bare(item, value[key])}' for key in sorted(value))}]" if value else _NIL
        )
    if shape == "bool":
        return "true" if value else "false"
    return str(value or (0 if shape.startswith("int") else ""))


def _fields(fields: list[_Field], value: Object) -> Iterator[str]:
    for name, known, kind in fields:
        yield f"{name}:{_typed(kind, value.get(known) if known else _own(kind, value))}"
    younger = {name: field for name, field in value.items() if field is not None} if value else {}
    for name in sorted(younger.keys() - _names(fields)):
        yield f"{name}:{orjson.dumps(younger[name], option=orjson.OPT_SORT_KEYS).decode()}"


def _own(kind: str, value: Object) -> Object:
    """Returns the fields of an object that belong to a struct embedded in its own."""
    names = _names(_layout().structs[kind])
    return {name: field for name, field in value.items() if name in names}


def _names(fields: list[_Field]) -> set[str]:
    """Returns the fields' names in JSON, with those of embedded structs."""
    embedded = (_names(_layout().structs[field.kind]) for field in fields if not field.known)
    return {field.known for field in fields if field.known}.union(*embedded)


def _integer_or_text(value: Any) -> str:
    text = isinstance(value, str)
    number, written = (0, value) if text else (value or 0, "")
    return f"{{Type:(intstr.Type){int(text)} IntVal:(int32){number} StrVal:(string){written}}}"


def _quantity(value: Any) -> str:
    written = str(value or 0)
    quantity = Quantity.parse(written)
    number, scale, exact, kept = quantity.unscaled, quantity.exponent, _NIL, ""
    if quantity.wide:
        exact, number, scale = _decimal(number, -scale), 0, 0
    elif _is_kept(written, quantity):
        kept = written
    return (
        f"{{i:(resource.int64Amount){{value:(int64){number} scale:(resource.Scale){scale}}}"
        f" d:(resource.infDecAmount){{Dec:(*inf.Dec){exact}}}"
        f" s:(string){kept} Format:(resource.Format){quantity.format}}}"
    )


def _decimal(number: int, places: int) -> str:
    """Returns a number beyond 64 bits as 64-bit words, the lowest first."""
    words = [str(abs(number) >> at & 2**64 - 1) for at in range(0, number.bit_length(), 64)]
    unscaled = f"{{neg:(bool){'true' if number < 0 else 'false'} abs:(big.nat)[{' '.join(words)}]}}"
    return f"{{unscaled:(big.Int){unscaled} scale:(inf.Scale){places}}}"


def _is_kept(written: str, quantity: Quantity) -> bool:
    """Returns whether Go's quantity keeps the text it was read from (ParseQuantity)."""
    found = _DIGITS.match(written)
    digits = "".join(found.groups("")) if found else ""
    if quantity.format is Format.BINARY_SI:
        return int(digits) & 7 != 0
    canonical = quantity.exponent % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")
    return written == "0" or canonical


_PARTICULAR: dict[str, Callable[[Any], str]] = {
    "v1.Time": lambda _: _NO_TIME,  # a template has no creation time
    "intstr.IntOrString": _integer_or_text,
    "resource.Quantity": _quantity,
}
