"""Checks the names of strategies of coordinated leader election.

Source: pkg/apis/coordination/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, invalid, not_supported
from kubeskew.apimachinery.validation import names

_STRATEGIES = ("OldestEmulationVersion",)


def _strategy(strategy: str) -> Iterator[FieldError]:
    path = "spec.strategy.strategy"  # upstream names the field twice
    if "/" not in strategy:
        if strategy not in _STRATEGIES:
            yield not_supported(path, strategy, _STRATEGIES)
        return
    yield from (invalid(path, strategy, text) for text in names.qualified_name(strategy))
