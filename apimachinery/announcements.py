"""Describes what components announce to the API server for the log's time line: starts, stops and faults."""

from collections.abc import Callable, Sequence
from typing import Final

from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.objects import Object

COMPONENTS_PATH: Final = "/kubeskew/v1/components"
RETRY_SECONDS: Final = 0.2  # between attempts, while no server answers

LastWords = Callable[[Sequence[Object]], None]  # posts announcements and blocks the process until it is done


def announcement(environment: Environment, component: str, what: str) -> Object:
    """Returns the body of the announcement that `what` happened to a component."""
    return {
        "component": component,
        "what": what,
        "version": str(environment.version),
        "gates": environment.gates.flag(),
    }
