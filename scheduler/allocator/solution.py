"""The solution that a search finds."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kubeskew.scheduler.allocator.allocated_state import Amounts
from kubeskew.scheduler.allocator.devices import Device
from kubeskew.scheduler.allocator.requests import RequestPlan

Timer = Callable[[], Callable[[], bool]]  # starts; what it gives says when the time is over


def never() -> bool:
    return False


def no_limit() -> Callable[[], bool]:
    return never


class Choice(NamedTuple):
    """One device, or a share of it, for one request."""

    request: RequestPlan
    device: Device
    taken: Amounts | None = None  # of a device that is shared


class ClaimSolution(NamedTuple):
    """The devices of a claim, and which alternative of each of its requests they serve."""

    choices: Sequence[Choice]
    options: Sequence[RequestPlan]


Solution = Sequence[ClaimSolution]  # per claim
