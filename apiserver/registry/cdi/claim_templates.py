"""Claims of cdi.k8s.io and the templates of claims inside of pods share these rules and defaults.

Source: KEP-3063 as drafted, section API.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, invalid, not_supported
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting import fill, struct
from kubeskew.apiserver.registry.shared.volumes.claims import template_metadata_errors

_MODES = ("Delayed", "Immediate")


def claim_spec_defaults(spec: Object) -> None:
    fill(spec, allocationMode="Delayed")


def claim_spec_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """Parameters are checked by their driver, and the class need not exist."""
    name, mode = spec.get("resourceClassName") or "", spec.get("allocationMode") or ""
    at = child(path, "resourceClassName")
    yield from (invalid(at, name, text) for text in names.dns1123_subdomain(name))
    if mode not in _MODES:
        yield not_supported(child(path, "allocationMode"), mode, _MODES)


def claim_template_defaults(template: Object) -> None:
    claim_spec_defaults(struct(template, "spec"))


def claim_template_errors(template: Object, path: str) -> Iterator[FieldError]:
    yield from template_metadata_errors(template.get("metadata") or {}, child(path, "metadata"))
    yield from claim_spec_errors(template.get("spec") or {}, child(path, "spec"))
