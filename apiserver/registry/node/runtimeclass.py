"""RuntimeClass: validation, strategy and cells of tables.

Sources: pkg/apis/node/validation/validation.go, pkg/registry/node/runtimeclass/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, InternalValue, child, duplicate, index, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.generic.builtin import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import amounts
from kubeskew.apiserver.registry.shared.podtemplate.validation import toleration_errors
from kubeskew.apiserver.registry.shared.repeats import repeats
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

_TOLERATION_KEYS = ("key", "operator", "value", "effect")


def runtime_class_errors(obj: Object, features: Features) -> Iterator[FieldError]:
    handler_required = features.kinds.handlers_required  # an empty handler is none, not a bad one
    handler = obj.get("handler") or ""
    if handler_required and not handler:
        yield required("handler")
    else:
        yield from (invalid("handler", handler, text) for text in names.dns1123_label(handler))
    overhead = obj.get("overhead")
    if overhead is not None:
        limits = {"limits": overhead.get("podFixed") or {}}  # checked, and shown, as a container's limits
        yield from amounts.requirement_errors(limits, set(), "overhead")
    scheduling = obj.get("scheduling")
    if scheduling is not None:
        yield from _scheduling_errors(scheduling, "scheduling", features)


def _scheduling_errors(scheduling: Object, path: str, features: Features) -> Iterator[FieldError]:
    at = child(path, "nodeSelector")
    selector = scheduling.get("nodeSelector") or {}
    for name in sorted(selector):
        yield from (invalid(at, name, text) for text in names.qualified_name(name))
        yield from (invalid(at, selector[name], text) for text in names.label_value(selector[name]))
    tolerations = scheduling.get("tolerations") or []
    comparisons = False if features.pods.names_comparisons else None
    yield from toleration_errors(
        tolerations, child(path, features.kinds.tolerations_path), comparisons=comparisons
    )
    at = child(path, "tolerations")
    # The seconds do not tell tolerations apart.
    keys = [tuple(toleration.get(name) or "" for name in _TOLERATION_KEYS) for toleration in tolerations]
    for position in sorted(repeats(keys)):
        yield duplicate(index(at, position), InternalValue(tolerations[position], "core.Toleration"))


def runtime_class_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    if new.get("handler") != old.get("handler"):
        yield invalid("handler", new.get("handler") or "", IMMUTABLE)


class RuntimeClassStrategy(ValidatedAsNew):
    core_metadata = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(runtime_class_errors(obj, ctx.features))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(runtime_class_update_errors(new, old))


def runtime_class_cells(subject: Subject) -> Cells:
    return {"Handler": subject.text("handler")}
