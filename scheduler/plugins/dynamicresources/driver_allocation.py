"""The place of claims that a driver's controller allocates, next to those that the scheduler gives devices.

Only 1.31 has both (gate DRAControlPlaneController); `classic/driver_allocation.py` fills the place.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.events import EventHint
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import Status
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import VersionConverter
from kubeskew.scheduler.queue import SchedulingQueue

GetClass = Callable[[str], Object | None]
DriverClaims = Any  # of one pod during one attempt; made and read by the implementation alone


class ForeignContextError(Exception):
    """The pod's scheduling context belongs to another pod; the text is upstream's."""


class DriverAllocation(Protocol):
    """Called by the plugin at its extension points, for one profile."""

    @property
    def context_hint(self) -> EventHint: ...

    def of_pod(self, pod: PodInfo, claims: Sequence[Object]) -> DriverClaims:
        """Raises ForeignContextError."""

    def filter(self, own: DriverClaims, node: NodeInfo) -> Status: ...

    async def free_one(self, own: DriverClaims, pod: PodInfo) -> Status | None:
        """None if no claim that a driver could give back keeps the pod from nodes."""

    def pre_score(self, own: DriverClaims, nodes: Sequence[str]) -> None: ...

    async def reserve(self, own: DriverClaims, pod: PodInfo, node: str, *, handled: int) -> Status:
        """`handled` claims of the pod are the scheduler's."""

    async def pre_bind(self, own: DriverClaims, pod: PodInfo) -> Status: ...

    async def unreserve(self, own: DriverClaims, pod: PodInfo) -> None: ...

    async def post_bind(self, pod: PodInfo) -> None: ...


class DriverControllers(Protocol):
    """All profiles of a scheduler share it."""

    def allocation(
        self, handle: Handle, claims: ClaimTracker, get_class: GetClass, edge: VersionConverter
    ) -> DriverAllocation: ...

    def connect(self, factory: InformerFactory, queue: SchedulingQueue) -> None: ...
