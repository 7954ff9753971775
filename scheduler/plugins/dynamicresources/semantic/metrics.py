"""Metrics of semantic parameters. KEP-4381's draft left their names open."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

_PREFIX = "scheduler_dynamic_resource_"


class Counts(Protocol):
    """The numbers are read whenever the metrics are."""

    def classes(self) -> int: ...

    def types(self, *, resolved: bool) -> int: ...

    def allocated(self) -> int: ...


def show_counts(registry: "CollectorRegistry", counts: Counts) -> None:
    """A registry takes these once."""
    from prometheus_client import Gauge

    plain: tuple[tuple[str, str, Callable[[], float]], ...] = (
        ("semantic_classes", "Classes with semantic parameters.", counts.classes),
        (
            "semantic_claims_allocated",
            "Claims that are allocated with semantic parameters.",
            counts.allocated,
        ),
    )
    for name, text, number in plain:
        Gauge(_PREFIX + name, text, registry=registry).set_function(number)
    types = Gauge(
        f"{_PREFIX}parameter_types",
        "Types of claim parameters that classes name, by whether a resource is known for them.",
        ["resolved"],
        registry=registry,
    )
    for resolved in (True, False):
        label = types.labels(resolved=str(resolved).lower())
        label.set_function(partial(counts.types, resolved=resolved))
