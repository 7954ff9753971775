"""Computes how long a pod that failed waits before it is tried again."""

from dataclasses import dataclass
from typing import Protocol

INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 10.0


class Attempted(Protocol):
    """A pod with its failed attempts: how many, and when (monotonic) the last one ended."""

    failures: int
    tried: float


@dataclass(frozen=True, slots=True)
class Backoff:
    """`podInitialBackoffSeconds` and `podMaxBackoffSeconds` of the configuration."""

    initial_seconds: float = INITIAL_BACKOFF_SECONDS
    max_seconds: float = MAX_BACKOFF_SECONDS

    def seconds(self, failures: int) -> float:
        """Returns the initial time after the first failed attempt, doubled with each, up to the maximum."""
        if failures <= 0:
            return 0.0
        return float(min(self.initial_seconds * 2 ** (min(failures, 16) - 1), self.max_seconds))

    def ready_at(self, pod: Attempted) -> float:
        """Returns when (monotonic) the pod may be tried again."""
        return pod.tried + self.seconds(pod.failures)
