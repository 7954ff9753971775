"""Checks Leases.

Source: pkg/apis/coordination/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, forbidden, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.coordination.strategies import strategy_errors


def lease_errors(spec: Object) -> Iterator[FieldError]:
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
    strategy = spec.get("strategy")
    if strategy is not None:
        yield from strategy_errors(strategy)
    if spec.get("preferredHolder") and not strategy:
        yield forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")
