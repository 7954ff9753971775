"""Checks IngressClasses.

Source: pkg/apis/networking/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.shared import domains
from kubeskew.apiserver.registry.shared.references import reference_errors

_MAX_CONTROLLER = 250


def class_errors(spec: Object, *, texts: bool) -> Iterator[FieldError]:
    """Checks the spec of an IngressClass; `texts`: errors of its parameters say what is required."""
    controller, at = spec.get("controller") or "", "spec.controller"
    if not controller:
        yield required(at)
    else:
        if len(controller.encode()) > _MAX_CONTROLLER:
            yield too_long(at, _MAX_CONTROLLER)
        yield from domains.prefixed_path_errors(at, controller)
    parameters = spec.get("parameters")
    if parameters is not None:
        yield from reference_errors(parameters, "spec.parameters", texts=texts)
        yield from _parameters(parameters, "spec.parameters")


def _parameters(parameters: Object, path: str) -> Iterator[FieldError]:
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    at = child(path, "namespace")
    if scope is None:
        yield required(child(path, "scope"))
    elif scope not in {"Cluster", "Namespace"}:
        yield not_supported(child(path, "scope"), scope, ("Cluster", "Namespace"))
    elif scope == "Cluster":
        if namespace is not None:
            yield forbidden(at, "`parameters.scope` is set to 'Cluster'")
    elif namespace is None:
        yield required(at, "`parameters.scope` is set to 'Namespace'")
    else:
        yield from (invalid(at, namespace, text) for text in names.dns1123_label(namespace))


def class_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = (ingress_class.get("spec") or {} for ingress_class in (new, old))
    if (after.get("controller") or "") != (before.get("controller") or ""):
        yield invalid("spec.controller", after.get("controller") or "", IMMUTABLE)
