"""Checks the names of strategies of coordinated leader election.

Source: pkg/apis/coordination/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, invalid, not_supported

STRATEGIES = ("OldestEmulationVersion",)


def strategy_errors(strategy: str) -> Iterator[FieldError]:
    path = "spec.strategy.strategy"  # upstream names the field twice
    if "/" not in strategy:
        if strategy not in STRATEGIES:
            yield not_supported(path, strategy, STRATEGIES)
        return
    yield from (invalid(path, strategy, text) for text in names.qualified_name(strategy))
