"""Describes what components announce to the API server for the log's time line: starts, stops and faults."""

from collections.abc import Callable, Sequence
from typing import Final

from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.objects import Object

COMPONENTS_PATH: Final = "/kubeskew/v1/components"
DETAIL_MAX: Final = 1_000  # characters of an announcement's detail
RETRY_SECONDS: Final = 0.2  # between attempts, while no server answers

LastWords = Callable[[Sequence[Object]], None]  # posts announcements and blocks the process until it is done


def announcement(environment: Environment, component: str, what: str, detail: str = "") -> Object:
    """Returns the body of the announcement that `what` happened to a component; `detail` may be any text, of
    which the server takes a line."""
    line = "".join(char if char.isprintable() else " " for char in detail)[:DETAIL_MAX]
    return {
        **({"detail": line} if line else {}),
        "component": component,
        "what": what,
        "version": str(environment.version),
        "gates": environment.gates.flag(),
    }
