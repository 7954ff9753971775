"""The environment of a component: version, gates, clock, randomness, and its announcements.

A component is given all of this instead of looking for it. Announcements of starts, stops and faults go to
the API server, for the log's time line.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.periods import QUICK, Periods
from kubeskew.apimachinery.versions import Version

COMPONENTS_PATH: Final = "/kubeskew/v1/components"
DETAIL_MAX: Final = 1_000  # characters of an announcement's detail
RETRY_SECONDS: Final = 0.2  # between attempts, while no server answers

LastWords = Callable[[Sequence[Object]], None]  # posts announcements and blocks the process until it is done


@dataclass(frozen=True, slots=True)
class Environment:
    version: Version
    gates: FeatureGates
    clock: Clock
    entropy: Entropy
    timeline_dir: Path | None = None  # of sockets for announcements where the API server is a real program
    time: str = QUICK  # one of TIMES
    periods: Periods = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "periods", Periods.at(self.version, self.time))


def announcement(environment: Environment, component: str, what: str, detail: str = "") -> Object:
    """Announces that `what` happened to a component; of `detail`, which may be any text, the server takes one
    line."""
    line = "".join(char if char.isprintable() else " " for char in detail)[:DETAIL_MAX]
    return {
        **({"detail": line} if line else {}),
        "component": component,
        "what": what,
        "version": str(environment.version),
        "gates": environment.gates.flag(),
    }
