"""The solution that a search finds."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kubeskew.scheduler.allocator.allocated_state import Amounts
from kubeskew.scheduler.allocator.requests import RequestPlan
from kubeskew.scheduler.allocator.slices import Device

Timer = Callable[[], Callable[[], bool]]  # begins a search; the result says whether its time is over


def never() -> bool:
    return False


def no_limit() -> Callable[[], bool]:
    return never


class Choice(NamedTuple):
    """One device, or a share of it, for one request."""

    request: RequestPlan
    device: Device
    taken: Amounts | None = None  # capacity of a share


class ClaimSolution(NamedTuple):
    """The devices of a claim, and the alternative chosen for each of its requests."""

    choices: Sequence[Choice]
    options: Sequence[RequestPlan]


Solution = Sequence[ClaimSolution]  # per claim
