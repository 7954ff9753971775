"""IngressClass: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/networking/v1/defaults.go, pkg/apis/networking/validation/validation.go,
pkg/registry/networking/ingressclass/strategy.go, 1.36.
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
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, WithGeneration
from kubeskew.apiserver.registry.generic.strategy import Check, StrategyContext
from kubeskew.apiserver.registry.shared import formats
from kubeskew.apiserver.registry.shared.references import reference_errors
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject, kind_name

_MAX_CONTROLLER = 250
_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"


def default_ingress_class(obj: Object, _: DefaultingContext) -> None:
    parameters = struct(obj, "spec").get("parameters")
    if parameters is not None:
        fill_null(parameters, scope="Cluster")


def class_errors(spec: Object, *, texts: bool) -> Iterator[FieldError]:
    """`texts`: errors of the parameters say what is required."""
    controller, at = spec.get("controller") or "", "spec.controller"
    if not controller:
        yield required(at)
    else:
        if len(controller.encode()) > _MAX_CONTROLLER:
            yield too_long(at, _MAX_CONTROLLER)
        yield from formats.prefixed_path_errors(at, controller)
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


class IngressClassStrategy(HandwrittenBuiltIn, WithGeneration):
    update_checks = (Check.METADATA_CHANGE, Check.CHANGE, Check.METADATA, Check.OWN_RULES)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        texts = ctx.features.services.reference_texts
        return list(class_errors(obj.get("spec") or {}, texts=texts))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(class_update_errors(new, old))


def ingress_class_cells(subject: Subject) -> Cells:
    parameters = subject.at("spec", "parameters")
    default = subject.at("metadata", "annotations", _DEFAULT_CLASS) == "true"
    return {
        "Name": subject.text("metadata", "name") + (" (default)" if default else ""),
        "Controller": subject.text("spec", "controller"),
        "Parameters": _shown_parameters(parameters) if parameters is not None else NONE,
    }


def _shown_parameters(reference: Object) -> str:
    return (
        f"{kind_name(reference.get('kind', ''), reference.get('apiGroup') or '')}/{reference.get('name', '')}"
    )
