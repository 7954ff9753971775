"""Shows structs of resource.k8s.io as upstream's field errors do: with Go's names, and every field.

The internal types have no JSON names. A field error shows a struct as JSON since 1.34, and in Go's syntax
before (`%#v`), where a pointer shows its address: here one that no process has. Source: k8s.io/apimachinery
pkg/util/validation/field/errors.go (ErrorBody) and pkg/apis/resource/types.go, 1.31 to 1.36.
"""

import json
from collections.abc import Mapping
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any, Final

from kubeskew.apimachinery.field import RenderedValue, show
from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.golang.raw_extensions import text_of
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.versions import Version, changes_until, is_between

_OLDEST, _JSON_SINCE, _OMITS_ZERO_TIME = 31, 34, 34
_METADATA: Final = "metav1.ObjectMeta"
_ADDRESS: Final = "0xc000000000"
# Of structs whose fields have other names in JSON, not only another case.
_JSON_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "resource.DeviceAttribute": {
        f"{name.title()}Value{many}": name + many
        for name in ("int", "bool", "string", "version")
        for many in ("", "s")
    },
}
_IMPORTED_STRUCTS: Final = {
    "metav1.Time": "v1.Time{}",
    "runtime.RawExtension": "runtime.RawExtension{Raw:[]uint8(nil), Object:runtime.Object(nil)}",
}
# Imported structs with JSON names, in their order.
_IMPORTED_ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    _METADATA: (
        "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
        "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations",
        "ownerReferences", "finalizers", "managedFields",
    ),
    "metav1.OwnerReference": ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"),
    "metav1.ManagedFieldsEntry": (
        "manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource",
    ),
    "metav1.Condition": ("type", "status", "observedGeneration", "lastTransitionTime", "reason", "message"),
}  # fmt: skip
_IMPORTED_LISTS: Final = {
    "ownerReferences": "metav1.OwnerReference",
    "managedFields": "metav1.ManagedFieldsEntry",
}
_SCALARS: Final = {"string": '""', "bool": "false", "int32": "0", "int64": "0", "int": "0"}

_Fields = list[list[str]]
Types = Mapping[str, _Fields | str | None]


class DeviceStructs:
    def __init__(self, version: Version) -> None:
        minor = max(version.base.minor, _OLDEST)
        self._version = version
        self._as_json = is_between(minor, _JSON_SINCE, None)
        self._shows_zero_time = not is_between(minor, _OMITS_ZERO_TIME, None)

    def shown(self, value: Any, type_: str) -> RenderedValue:
        """A value that has JSON's names, for an error; `type_` is its internal type."""
        if self._as_json:
            return RenderedValue(value, lambda value: show(self._json(value, type_)))
        return RenderedValue(value, lambda value: self._go(value, type_.removeprefix("*")))

    @cached_property
    def _types(self) -> Types:
        """Read for the first value that is shown."""
        return types_at(max(self._version.base.minor, _OLDEST), self._version.document("device_structs.json"))

    # --- JSON ------------------------------------------------------------------------------------------

    def _json(self, value: Any, type_: str) -> Any:
        if type_.startswith("*"):
            return None if value is None else self._json(value, type_[1:])
        if type_.startswith("[]"):
            return None if value is None else [self._json(item, type_[2:]) for item in value]
        if type_.startswith("map["):
            inner = type_.partition("]")[2]
            return None if value is None else {name: self._json(value[name], inner) for name in sorted(value)}
        known = self._types.get(type_)
        if isinstance(known, str):
            return self._json(value, known)
        if known is not None:
            return self._struct(value or {}, type_, known)
        return self._imported(value, type_)

    def _struct(self, value: Mapping[str, Any], type_: str, fields: _Fields) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, inner in fields:
            if inner == _METADATA:
                found |= self._metadata(value.get("metadata") or {})
            elif not name:
                found |= self._json(value, inner)
            else:
                found[name] = self._json(value.get(_json_name(type_, name, value)), inner)
        return found

    def _metadata(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        zero = {"creationTimestamp": None} if self._shows_zero_time else {}
        return imported_struct(zero | dict(metadata), _METADATA)

    def _imported(self, value: Any, type_: str) -> Any:
        if type_ in _IMPORTED_ORDER:
            return imported_struct(value or {}, type_)
        if value is not None:
            return value
        if type_ == "resource.Quantity":
            return "0"
        if type_ in _IMPORTED_STRUCTS:
            return None
        return json.loads(_SCALARS.get(type_, '""'))

    # --- Go's syntax -----------------------------------------------------------------------------------

    def _go(self, value: Any, type_: str) -> str:
        if type_.startswith("*"):
            return f"({type_})({'nil' if value is None else _ADDRESS})"
        if type_.startswith("[]"):
            if value is None:
                return f"{type_}(nil)"
            return f"{type_}{{{', '.join(self._go(item, type_[2:]) for item in value)}}}"
        if type_.startswith("map["):
            if value is None:
                return f"{type_}(nil)"
            inner = type_.partition("]")[2]
            entries = (f"{quoted(name)}:{self._go(value[name], inner)}" for name in sorted(value))
            return f"{type_}{{{', '.join(entries)}}}"
        known = self._types.get(type_)
        if isinstance(known, str):
            return self._go(value, known)
        if known is not None:
            return f"{type_}{{{', '.join(self._go_fields(value or {}, type_, known))}}}"
        return _go_imported(value, type_)

    def _go_fields(self, value: Mapping[str, Any], type_: str, fields: _Fields) -> list[str]:
        shown = []
        for name, inner in fields:
            if inner == _METADATA:
                shown.append(f"ObjectMeta:{_go_metadata(value.get('metadata') or {})}")
            elif not name:
                shown.append(f"{inner.rpartition('.')[2]}:{self._go(value, inner)}")
            else:
                shown.append(f"{name}:{self._go(value.get(_json_name(type_, name, value)), inner)}")
        return shown


def imported_struct(value: Mapping[str, Any], type_: str) -> dict[str, Any]:
    """Puts the fields of an imported type into Go's order, and leaves out others."""
    known = {name: value[name] for name in _IMPORTED_ORDER[type_] if name in value}
    for name in known if type_ == _METADATA else ():
        if isinstance(known[name], dict):
            known[name] = dict(sorted(known[name].items()))
        if name not in _IMPORTED_LISTS:
            continue
        known[name] = [imported_struct(item, _IMPORTED_LISTS[name]) for item in known[name] or ()]
    return known


@lru_cache(maxsize=32)
def device_structs(version: Version) -> DeviceStructs:
    """Minors older than the oldest known have the types of that one."""
    return DeviceStructs(version)


def types_at(minor: int, own: Types | None) -> Types:
    """`own` is the document of an imported release, which lies over the types of its minor."""
    data = files("kubeskew.apimachinery.data").joinpath("device_structs.json")
    document = json.loads(data.read_bytes())
    types: dict[str, _Fields | str | None] = document["types"]
    for later in changes_until(document["changes"], minor):
        types |= later
    return {**types, **(own or {})}


def _json_name(type_: str, name: str, value: Mapping[str, Any]) -> str:
    """The key of `value` that holds the Go field `name`; empty if none does."""
    renamed = _JSON_NAMES.get(type_, {}).get(name)
    if renamed is not None:
        return renamed
    folded = name.lower()
    return next((key for key in value if key.lower() == folded), "")


def _go_imported(value: Any, type_: str) -> str:
    if type_ == "resource.Quantity":
        return _go_quantity(str(value or "0"))
    if type_ == "runtime.RawExtension" and value is not None:
        listed = ", ".join(hex(byte) for byte in text_of(value))
        return f"runtime.RawExtension{{Raw:[]uint8{{{listed}}}, Object:runtime.Object(nil)}}"
    if value is None:
        return _IMPORTED_STRUCTS.get(type_, _SCALARS.get(type_, '""'))
    return show(value)


def _go_quantity(text: str) -> str:
    """Shows a quantity that was read from a text of few digits."""
    amount = Quantity.parse(text).decimal().normalize()
    scale = int(amount.as_tuple().exponent)
    digits = int(amount.scaleb(-scale))
    if scale > 0 and "e" not in text.lower() and not text[-1:].isalpha():
        digits, scale = digits * 10**scale, 0
    kind = "BinarySI" if text.endswith("i") else "DecimalExponent" if "e" in text.lower() else "DecimalSI"
    amount_text = f"i:resource.int64Amount{{value:{digits}, scale:{scale}}}"
    inner = f"{amount_text}, d:resource.infDecAmount{{Dec:(*inf.Dec)(nil)}}"
    return f"resource.Quantity{{{inner}, s:{quoted(text)}, Format:{quoted(kind)}}}"


def _go_metadata(metadata: Mapping[str, Any]) -> str:
    def labels(name: str) -> str:
        value = metadata.get(name)
        if value is None:
            return "map[string]string(nil)"
        entries = ", ".join(f"{quoted(key)}:{quoted(value[key])}" for key in sorted(value))
        return f"map[string]string{{{entries}}}"

    shown = dict.fromkeys(("Name", "GenerateName", "Namespace", "SelfLink", "UID", "ResourceVersion"), '""')
    shown |= {
        "Generation": "0",
        "CreationTimestamp": "time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)",
        "DeletionTimestamp": "<nil>",
        "DeletionGracePeriodSeconds": "(*int64)(nil)",
        "Labels": labels("labels"),
        "Annotations": labels("annotations"),
        "OwnerReferences": "[]v1.OwnerReference(nil)",
        "Finalizers": "[]string(nil)",
        "ManagedFields": "[]v1.ManagedFieldsEntry(nil)",
    }
    return f"v1.ObjectMeta{{{', '.join(f'{name}:{text}' for name, text in shown.items())}}}"
