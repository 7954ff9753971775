"""IPAddress: validation, strategy and cells of tables.

Sources: pkg/apis/networking/validation/validation.go, pkg/registry/networking/ipaddress/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, InternalValue, child, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.generic.builtin import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import addresses
from kubeskew.apiserver.registry.shared.references import segment_errors
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject, kind_name


def address_name_texts(name: str) -> list[str]:
    errors = addresses.ip_errors("", name, strict=True)
    shown = addresses.parse(name)
    if not errors and str(shown) != name:
        return [f'must be in canonical form ("{shown}")']
    return [error.detail for error in errors]


def address_errors(spec: Object) -> Iterator[FieldError]:
    parent, path = spec.get("parentRef"), "spec.parentRef"
    if parent is None:
        yield required(path)
        return
    group, namespace = parent.get("group") or "", parent.get("namespace") or ""
    if group:
        yield from (invalid(child(path, "group"), group, text) for text in names.dns1123_subdomain(group))
    yield from segment_errors(parent, path, "resource", "name")
    at = child(path, "namespace")
    yield from (invalid(at, namespace, text) for text in names.path_segment(namespace))


def address_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = ((address.get("spec") or {}).get("parentRef") for address in (new, old))
    if after != before:
        yield invalid("spec.parentRef", InternalValue(after, "*networking.ParentReference"), IMMUTABLE)


class IPAddressStrategy(ValidatedAsNew):
    """The address itself is the name."""

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return address_name_texts(name)

    def generated_name(self, prefix: str, suffix: str) -> str:
        """No address is made up: a prefix is the name (noopNameGenerator)."""
        return prefix

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(address_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(address_update_errors(new, old))


def ip_address_cells(subject: Subject) -> Cells:
    reference = subject.at("spec", "parentRef")
    if reference is None:
        return {"ParentRef": NONE}
    parts = [
        kind_name(reference.get("resource", ""), reference.get("group", "")).lower(),
        reference.get("namespace", ""),
        reference.get("name", ""),
    ]
    return {"ParentRef": "/".join(part for part in parts if part)}
