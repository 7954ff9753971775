"""Lease: validation, strategy, cells of tables, and names of strategies of leader election.

Sources: pkg/apis/coordination/validation/validation.go, pkg/registry/coordination/lease/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, forbidden, invalid, not_supported
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

STRATEGIES = ("OldestEmulationVersion",)


def strategy_errors(strategy: str) -> Iterator[FieldError]:
    path = "spec.strategy.strategy"  # upstream names the field twice
    if "/" not in strategy:
        if strategy not in STRATEGIES:
            yield not_supported(path, strategy, STRATEGIES)
        return
    yield from (invalid(path, strategy, text) for text in names.qualified_name(strategy))


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


class LeaseStrategy(HandwrittenBuiltIn):
    core_metadata = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(lease_errors(obj.get("spec") or {}))


def lease_cells(subject: Subject) -> Cells:
    return {"Holder": subject.text("spec", "holderIdentity")}
