"""PriorityClass: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/scheduling/v1/defaults.go, pkg/apis/scheduling/validation/validation.go,
pkg/registry/scheduling/priorityclass/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, forbidden, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission.plugins.pod_defaults import SYSTEM_PRIORITIES
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill_null
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, WithGeneration
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

_SYSTEM_PREFIX = "system-"

_MAX_PRIORITY = 1000000000

_PREEMPTION = ("PreemptLowerPriority", "Never")


def default_priority_class(obj: Object, _: DefaultingContext) -> None:
    fill_null(obj, preemptionPolicy="PreemptLowerPriority")


def priority_class_errors(obj: Object) -> Iterator[FieldError]:
    name, value = obj["metadata"].get("name") or "", obj.get("value") or 0
    if name.startswith(_SYSTEM_PREFIX):
        problem = _system_problem(name, value, is_default=bool(obj.get("globalDefault")))
        if problem:
            text = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only."
            yield forbidden("metadata.name", f"{text} error: {problem}")
    elif value > _MAX_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {_MAX_PRIORITY}")
    policy = obj.get("preemptionPolicy")
    if policy == "":
        yield required("preemptionPolicy")
    elif policy is not None and policy not in _PREEMPTION:
        yield not_supported("preemptionPolicy", policy, _PREEMPTION)


def _system_problem(name: str, value: int, *, is_default: bool) -> str:
    """An empty text means that the class is one of the system's own."""
    known = SYSTEM_PRIORITIES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def priority_class_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    if (new.get("value") or 0) != (old.get("value") or 0):
        yield forbidden("value", "may not be changed in an update.")
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        yield invalid("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE)


class PriorityClassStrategy(HandwrittenBuiltIn, WithGeneration):
    """The first generation is the last: nothing that counts may change."""

    generation_ignores = frozenset({"metadata", "description", "globalDefault"})

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(priority_class_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(priority_class_update_errors(new, old))


def priority_class_cells(subject: Subject) -> Cells:
    return {
        "Value": subject.number("value"),
        "Global-Default": bool(subject.at("globalDefault")),
        "PreemptionPolicy": subject.text("preemptionPolicy"),
    }
