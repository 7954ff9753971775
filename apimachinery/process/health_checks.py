"""The health of a component as it is served: readiness checks, JSON pages and metrics."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kubeskew.apimachinery.versions import NEWEST_MINOR, Version

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

# The parameter of /readyz for how many seconds the answer may wait until the component is ready.
WAIT: Final = "wait"


class Check(NamedTuple):
    """A named readiness check: True, or a text about what is missing."""

    name: str
    run: Callable[[], bool | str]


@dataclass(slots=True)
class Health:
    """Holds the readiness checks, JSON pages and metrics that a component serves."""

    registry: "CollectorRegistry"
    version: Version = field(default_factory=lambda: Version(NEWEST_MINOR))  # of which metrics are written
    checks: list[Check] = field(default_factory=list)
    pages: dict[str, Callable[[], Any]] = field(default_factory=dict)
    more_metrics: dict[str, "CollectorRegistry"] = field(default_factory=dict)  # by path, besides /metrics

    def add_check(self, name: str, run: Callable[[], bool | str]) -> None:
        """Adds a check; the component is ready only while `run` returns True."""
        self.checks.append(Check(name, run))

    def add_page(self, path: str, run: Callable[[], Any]) -> None:
        """Serves what `run` returns, as JSON, at `path`."""
        self.pages[path] = run

    def failing(self) -> list[str]:
        """One `name: what is missing` per check that fails; without any check, the component has not started
        yet."""
        if not self.checks:
            return ["starting: no checks yet"]
        results = ((check.name, check.run()) for check in self.checks)
        return [
            f"{name}: {result}" if result else f"{name}: not ready"
            for name, result in results
            if result is not True
        ]
