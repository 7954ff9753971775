"""Holds the rules of the status of workloads. Source: pkg/apis/{core,apps}/validation
(Validate*StatusUpdate), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, child, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE

_PATH = "status"
_OF_REPLICAS = "cannot be greater than status.replicas"


def _counts(status: Object, *fields: str) -> Iterator[FieldError]:
    for name in fields:
        number = status.get(name) or 0
        if number < 0:
            yield invalid(child(_PATH, name), number, NOT_NEGATIVE)


def _at_most(status: Object, most: str, text: str, *fields: str) -> Iterator[FieldError]:
    limit = status.get(most) or 0
    for name in fields:
        number = status.get(name) or 0
        if number > limit:
            yield invalid(child(_PATH, name), number, text)


def _collisions(new: Object, old: Object) -> Iterator[FieldError]:
    now, before = new.get("collisionCount"), old.get("collisionCount")
    if before is not None and (now is None or now < before):
        yield invalid(child(_PATH, "collisionCount"), now or 0, "cannot be decremented")


def replica_errors(new: Object, _old: Object) -> Iterator[FieldError]:
    """Checks replica sets and replication controllers."""
    counted = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    yield from _counts(new, *counted, "terminatingReplicas", "observedGeneration")
    yield from _at_most(new, "replicas", _OF_REPLICAS, *counted[1:])
    yield from _at_most(new, "readyReplicas", "cannot be greater than readyReplicas", "availableReplicas")


def deployment_errors(new: Object, old: Object) -> Iterator[FieldError]:
    yield from _counts(
        new, "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
        "unavailableReplicas", "terminatingReplicas", "collisionCount",
    )  # fmt: skip
    limited = ("updatedReplicas", "readyReplicas", "availableReplicas")
    yield from _at_most(new, "replicas", _OF_REPLICAS, *limited)
    yield from _at_most(new, "readyReplicas", "cannot be greater than readyReplicas", "availableReplicas")
    yield from _collisions(new, old)


def stateful_set_errors(new: Object, old: Object) -> Iterator[FieldError]:
    limited = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    yield from _counts(new, "replicas", *limited, "observedGeneration", "collisionCount")
    yield from _at_most(new, "replicas", _OF_REPLICAS, *limited)
    text = "cannot be greater than status.readyReplicas"
    yield from _at_most(new, "readyReplicas", text, "availableReplicas")
    yield from _collisions(new, old)


def daemon_set_errors(new: Object, old: Object) -> Iterator[FieldError]:
    yield from _counts(
        new, "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
        "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable",
        "collisionCount",
    )  # fmt: skip
    yield from _collisions(new, old)
