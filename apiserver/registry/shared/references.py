"""Checks references to objects by group, kind and name, and sets the default port of services' ones.

Webhooks, conversions and extension servers are reached by such services.

Source: SetDefaults_ServiceReference in pkg/apis/{admissionregistration,apiextensions,apiregistration}, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting import fill_null

_PORT = 443


def reference_errors(reference: Object, path: str, *, texts: bool) -> Iterator[FieldError]:
    """`texts`: errors say what is required."""
    group = reference.get("apiGroup")
    if group is not None:
        yield from (invalid(child(path, "apiGroup"), group, text) for text in names.dns1123_subdomain(group))
    yield from segment_errors(reference, path, "kind", "name", detail="{} is required" if texts else "")


def segment_errors(obj: Object, path: str, *fields: str, detail: str = "") -> Iterator[FieldError]:
    for name in fields:
        at, value = child(path, name), obj.get(name) or ""
        if not value:
            yield required(at, detail.format(name))
        yield from (invalid(at, value, text) for text in names.path_segment(value))


def default_service_port(client: Object) -> None:
    if client.get("service") is not None:
        fill_null(client["service"], port=_PORT)
