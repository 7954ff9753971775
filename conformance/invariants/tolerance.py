"""Says what a run allows its components: how far clocks may differ, and how far caches may be behind."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Holds what is no fault of a component's in a run.

    `clock_skew`: times of different machines that are closer than that say nothing about an order.
    `cache_lag`: what a component decides may be right for the state of so long ago.
    """

    clock_skew: timedelta = timedelta(0)
    cache_lag: timedelta = timedelta(seconds=5)


USUAL = Tolerance()
