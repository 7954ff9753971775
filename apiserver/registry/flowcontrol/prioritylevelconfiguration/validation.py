"""Checks PriorityLevelConfigurations.

Source: pkg/apis/flowcontrol/validation/validation.go, 1.36.
"""

import math
from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery.field import (
    FieldError,
    child,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import RequestFeatures

_MAX_QUEUES = 10_000_000

_MAX_HASH_BITS = 60


def priority_level_errors(obj: Object, features: RequestFeatures) -> Iterator[FieldError]:
    """Checks a PriorityLevelConfiguration."""
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


def _limited_errors(limited: Object, path: str, features: RequestFeatures) -> Iterator[FieldError]:
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
