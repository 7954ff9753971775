"""Shows values in errors as releases up to 1.33 do: in Go's syntax (`%#v`), as far as no address is in it.

Nil is a quoted null, but for lists and maps, which have their types. What holds pointers, and so addresses,
stays JSON.

Source: k8s.io/apimachinery/pkg/util/validation/field/errors.go (ErrorBody), 1.33.
"""

from typing import Any

from kubeskew.apimachinery.catalogue.types import META
from kubeskew.apimachinery.field import Unquoted
from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.registry.index import GROUP_PACKAGES

_SELECTOR = META + "LabelSelector"
_TEXTS = "string"


def in_go_syntax(value: Any, schema: Schema | None, group: str) -> Any:
    """Returns the value as it is if it cannot be shown so. `group` is that of the resource."""
    if schema is not None and schema.name == _SELECTOR and isinstance(value, dict):
        return Unquoted(_selector(value))
    type_ = _type_of(schema, GROUP_PACKAGES.get(group, "")) if schema is not None else ""
    if value is None:
        return Unquoted(f"{type_}(nil)" if type_ else '"null"')
    if not type_ or not _holds_texts(value):
        return value
    if isinstance(value, list):
        return Unquoted(f"{type_}{{{', '.join(map(quoted, value))}}}")
    return Unquoted(f"{type_}{{{', '.join(f'{quoted(key)}:{quoted(value[key])}' for key in sorted(value))}}}")


def _holds_texts(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else (None,)
    return all(isinstance(part, str) for part in parts)


def _type_of(schema: Schema, package: str) -> str:
    """Empty for what is neither a list nor a map."""
    items = schema.items
    if items is None or schema.kind not in {Kind.LIST, Kind.MAP}:
        return ""
    if items.kind is Kind.QUANTITY:
        return "core.ResourceList"
    return ("map[string]" if schema.kind is Kind.MAP else "[]") + _name_of(items, package)


def _name_of(schema: Schema, package: str) -> str:
    """Internal types are in a package named after the group."""
    if schema.kind is Kind.STRING and not schema.go_name:
        return _TEXTS
    if not schema.name:
        return f"{package}.{schema.go_name.rpartition('.')[2]}"
    *_, room, _, name = schema.name.split(".")
    return f"{'v1' if schema.name.startswith(META) else room}.{name}"


def internal_nil(sort: str) -> Any:
    """Returns what stands for nil of an internal type, as `InternalValue` names it."""
    return Unquoted(f"[]{sort[1:]}(nil)" if sort.startswith("[") else '"null"')


def _selector(selector: dict[str, Any]) -> str:
    labels = selector.get("matchLabels") or {}
    texts = ", ".join(f"{quoted(name)}:{quoted(labels[name])}" for name in sorted(labels))
    shown = f"{{{texts}}}" if labels else "(nil)"
    expressions = selector.get("matchExpressions")
    of = "[]v1.LabelSelectorRequirement"
    each = f"{of}(nil)" if not expressions else f"{of}{{{', '.join(map(_requirement, expressions))}}}"
    return f"v1.LabelSelector{{MatchLabels:map[string]string{shown}, MatchExpressions:{each}}}"


def _requirement(one: dict[str, Any]) -> str:
    values = one.get("values")
    shown = "[]string(nil)" if not values else f"[]string{{{', '.join(map(quoted, values))}}}"
    key, operator = (quoted(one.get(name) or "") for name in ("key", "operator"))
    return f"v1.LabelSelectorRequirement{{Key:{key}, Operator:{operator}, Values:{shown}}}"
