"""PriorityLevelConfiguration: defaults, validation, strategy, cells of tables; FlowSchema's status too.

Of a status, conditions are all that is written.

Sources: pkg/apis/flowcontrol/v1beta2/defaults.go, pkg/apis/flowcontrol/validation/validation.go,
pkg/registry/flowcontrol/prioritylevelconfiguration/strategy.go, 1.36.
"""

import math
from collections.abc import Iterator
from typing import Any, ClassVar

from kubeskew.apimachinery.conditions import new_condition
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import KindFeatures
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import HandwrittenValidation, WithGeneration
from kubeskew.apiserver.registry.generic.strategy import Check, StatusStrategy, Strategy, StrategyContext
from kubeskew.apiserver.registry.tables.cells import NONE, Cell, Cells, Subject
from kubeskew.apiserver.storage.encoding import copied

_PRESERVE_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"

_QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
_MAX_QUEUES = 10_000_000

_MAX_HASH_BITS = 60
_GROUP = "flowcontrol.apiserver.k8s.io"


def status_errors(status: Object, *, texts: bool) -> Iterator[FieldError]:
    """Conditions have types, each a different one; `texts`: an error says it in words, too."""
    seen: set[str] = set()
    for position, condition in enumerate(status.get("conditions") or []):
        at, kind = f"{index('status.conditions', position)}.type", condition.get("type") or ""
        if kind in seen:
            yield duplicate(at, kind)
        seen.add(kind)
        if not kind:
            yield required(at, "must not be empty" if texts else "")


class ConditionsOnly(HandwrittenValidation, StatusStrategy):
    """A status write changes conditions alone, and none of the metadata."""

    update_checks = (Check.CHANGE,)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        sent = new["metadata"]
        held = {name: sent[name] for name in ("managedFields", "resourceVersion") if name in sent}
        new["metadata"] = {**copied(old["metadata"]), **held}

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        texts = ctx.features.kinds.condition_texts
        return list(status_errors(new.get("status") or {}, texts=texts))

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))


def default_priority_level(obj: Object, ctx: DefaultingContext) -> None:
    _priority_level(obj, ctx, preserve_zero=True)


def default_priority_level_beta(obj: Object, ctx: DefaultingContext) -> None:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    _priority_level(obj, ctx, preserve_zero=_PRESERVE_ZERO in annotations)


def default_priority_level_assured(obj: Object, ctx: DefaultingContext) -> None:
    _priority_level(obj, ctx, preserve_zero=False, shares="assuredConcurrencyShares")


def _priority_level(
    obj: Object, ctx: DefaultingContext, *, preserve_zero: bool, shares: str = "nominalConcurrencyShares"
) -> None:
    spec = struct(obj, "spec")
    if spec.get("type") == "Exempt" and ctx.features.kinds.exempt_levels:
        fill_null(struct(spec, "exempt"), nominalConcurrencyShares=0, lendablePercent=0)
    limited = spec.get("limited")
    if limited is None:
        return
    (fill_null if preserve_zero else fill)(limited, **{shares: 30})
    fill_null(limited, lendablePercent=0)
    queuing = (limited.get("limitResponse") or {}).get("queuing")
    if queuing is not None:
        fill(queuing, **_QUEUING)


def priority_level_errors(obj: Object, features: KindFeatures) -> Iterator[FieldError]:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name")
    kind = spec.get("type") or ""
    if (name == "exempt") != (kind == "Exempt"):
        text = "must be 'Exempt' if and only if `name` is 'exempt'"
        if features.names_level_type:
            text = "type must be 'Exempt' if and only if name is 'exempt'"
        yield invalid("spec.type", kind, text)
    if kind == "Limited":
        if spec.get("exempt") is not None:
            yield forbidden("spec.exempt", "must be nil if the type is Limited")
        if spec.get("limited") is None:
            yield required("spec.limited", "must not be empty when type is Limited")
        else:
            yield from _limited_errors(spec["limited"], "spec.limited", features)
    elif kind == "Exempt":
        if spec.get("limited") is not None:
            yield forbidden("spec.limited", "must be nil if the type is not Limited")
    elif kind == "" and features.level_types_required:
        yield required("spec.type")
    else:
        yield not_supported("spec.type", kind, ("Exempt", "Limited"))


def _limited_errors(limited: Object, path: str, features: KindFeatures) -> Iterator[FieldError]:
    shares = limited.get("nominalConcurrencyShares")
    if shares is not None and shares < 0:
        yield invalid(child(path, "nominalConcurrencyShares"), shares, "must be a non-negative integer")
    response, at = limited.get("limitResponse") or {}, child(path, "limitResponse")
    kind, queuing = response.get("type") or "", response.get("queuing")
    if kind == "Reject" and queuing is not None:
        yield forbidden(child(at, "queuing"), "must be nil if limited.limitResponse.type is not Limited")
    elif kind == "Queue" and queuing is None:
        yield required(child(at, "queuing"), "must not be empty if limited.limitResponse.type is Limited")
    elif kind == "Queue":
        yield from _queuing_errors(queuing or {}, child(at, "queuing"))
    elif kind == "" and features.level_types_required:
        yield required(child(at, "type"))
    elif kind != "Reject":
        yield not_supported(child(at, "type"), kind, ("Queue", "Reject"))
    lendable, borrowing = limited.get("lendablePercent"), limited.get("borrowingLimitPercent")
    if lendable is not None and not 0 <= lendable <= 100:
        yield invalid(child(path, "lendablePercent"), lendable, "must be between 0 and 100, inclusive")
    if borrowing is not None and borrowing < 0:
        text = "if specified, must be a non-negative integer"
        yield invalid(child(path, "borrowingLimitPercent"), borrowing, text)


def _queuing_errors(queuing: dict[str, Any], path: str) -> Iterator[FieldError]:
    queues, hand = queuing.get("queues") or 0, queuing.get("handSize") or 0
    length = queuing.get("queueLengthLimit") or 0
    if length <= 0:
        yield invalid(child(path, "queueLengthLimit"), length, "must be positive")
    if queues <= 0:
        yield invalid(child(path, "queues"), queues, "must be positive")
    elif queues > _MAX_QUEUES:
        yield invalid(child(path, "queues"), queues, f"must not be greater than {_MAX_QUEUES}")
    if hand <= 0:
        yield invalid(child(path, "handSize"), hand, "must be positive")
    elif hand > queues:
        text = f"should not be greater than queues ({queues})"
        yield invalid(child(path, "handSize"), hand, text)
    elif math.ceil(math.log2(queues) * hand) > _MAX_HASH_BITS:
        needs = f"required entropy bits of deckSize {queues} and handSize {hand}"
        yield invalid(child(path, "handSize"), hand, f"{needs} should not be greater than {_MAX_HASH_BITS}")


class PriorityLevelStrategy(WithGeneration):
    status: ClassVar[type[Strategy]] = ConditionsOnly
    update_checks = (Check.METADATA, Check.STRUCTURE, Check.CHANGE)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(priority_level_errors(obj, ctx.features.kinds))


def set_dangling_condition(obj: Object, ctx: StrategyContext) -> None:
    """Dangling is true if the priority level is missing."""
    name = ((obj.get("spec") or {}).get("priorityLevelConfiguration") or {}).get("name") or ""
    found = ctx.get_entry(f"prioritylevelconfigurations.{_GROUP}", "", name) is not None
    named = f'This FlowSchema references the PriorityLevelConfiguration object named "{name}"'
    if found:
        verdict = ("False", "Found", f"{named} and it exists")
    else:
        verdict = ("True", "NotFound", f"{named} but there is no such object")
    condition = new_condition("Dangling", *verdict, ctx.now)
    obj["status"] = {"conditions": [condition]}


def priority_level_configuration_cells(subject: Subject) -> Cells:
    limited = subject.at("spec", "limited")
    queuing = subject.at("spec", "limited", "limitResponse", "queuing")

    def of_queues(name: str) -> Cell:
        return NONE if queuing is None else int(queuing.get(name) or 0)

    shares: Cell = NONE
    if limited is not None:
        # The first two betas have another name for it.
        named = "nominalConcurrencyShares", "assuredConcurrencyShares"
        shares = next((limited[name] for name in named if limited.get(name) is not None), 0)
    return {
        "Type": subject.text("spec", "type"),
        "NominalConcurrencyShares": shares,
        "Queues": of_queues("queues"),
        "HandSize": of_queues("handSize"),
        "QueueLengthLimit": of_queues("queueLengthLimit"),
    }
