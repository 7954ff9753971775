"""Finds a node for a pod together with the drivers that are to allocate its claims.

The scheduler names potential nodes, drivers tell which of them do not suit, and the scheduler selects one:
PreScore, Reserve, PreBind, Unreserve and PostBind.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.31.
"""

import logging
from collections.abc import Sequence

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Entropy
from kubeskew.apimachinery.errors import StatusError
from kubeskew.scheduler.features.classic import ClassicFeatures
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SUCCESS, Code, Status, failed
from kubeskew.scheduler.plugins.dynamicresources.classic.contexts import MAX_NODES, SchedulingContexts
from kubeskew.scheduler.plugins.dynamicresources.classic.state import DriverClaims

log = logging.getLogger(__name__)


class Negotiation:
    """The scheduler's side, for the claims of one pod at a time."""

    def __init__(
        self, features: ClassicFeatures, contexts: SchedulingContexts, client: APIClient, entropy: Entropy
    ) -> None:
        self._features = features
        self._contexts = contexts
        self._client = client
        self._entropy = entropy
        self._waiting = Code.PENDING if features.waits_as_pending else Code.UNRESOLVABLE

    def pre_score(self, own: DriverClaims, nodes: Sequence[str]) -> None:
        """Choose the potential nodes; names too many do no harm, only missing ones are written."""
        if not own.pending or set(nodes) <= set(own.context.stored_nodes):
            return
        own.scored = True
        own.context.potential_nodes = sorted(self._some(nodes))

    def _some(self, nodes: Sequence[str]) -> list[str]:
        chosen = list(nodes)
        while len(chosen) > MAX_NODES:
            del chosen[int(self._entropy.random() * len(chosen))]
        return chosen

    async def reserve(self, own: DriverClaims, pod: PodInfo, node: str, *, handled: int = 0) -> Status:
        """Decide what drivers are to be told; `handled` claims are allocated by the scheduler itself.

        Until 1.29 this is written here, and the pod waits for the answer; later PreBind does.
        """
        pending = own.pending
        if not pending:
            return SUCCESS
        if not own.scored and node not in own.context.stored_nodes:
            own.context.potential_nodes = [node]
        informed = sum(claim.unsuitable is not None for claim in pending) + handled
        # One claim alone can be had without asking first. The comparison is upstream's, odd as it is where
        # the scheduler allocates some of the claims.
        selects = (len(pending) == 1 and not handled) or informed == len(pending) > handled
        if selects:
            own.context.select(node)
        if self._features.writes_in_reserve:
            return await self._write(own, pod, "allocate resource" if selects else "provide information")
        if own.context.is_dirty:
            return SUCCESS
        return self._wait("waiting for resource driver to provide information")

    async def _write(self, own: DriverClaims, pod: PodInfo, what: str) -> Status:
        if own.context.is_dirty:
            try:
                await self._contexts.publish(self._client, own.context, pod)
            except (StatusError, *CONNECTION_ERRORS) as error:
                return failed(error)
        return self._wait(f"waiting for resource driver to {what}")

    async def pre_bind(self, own: DriverClaims, pod: PodInfo) -> Status:
        """Write what Reserve decided; the pod cannot be bound then. Raises StatusError."""
        if not own.context.is_dirty:
            return SUCCESS
        await self._contexts.publish(self._client, own.context, pod)
        return self._wait("waiting for resource driver")

    async def unreserve(self, own: DriverClaims, pod: PodInfo) -> None:
        """Write the potential nodes even if another plugin failed: the drivers' answer helps next time."""
        if self._features.writes_in_reserve or not own.context.is_dirty:
            return
        try:
            await self._contexts.publish(self._client, own.context, pod)
        except (StatusError, *CONNECTION_ERRORS) as error:
            log.error("publish %s of pod %s: %s", self._features.context_kind, pod.key, error)

    async def withdraw_node(self, own: DriverClaims, pod: PodInfo) -> None:
        """Select no node, so that a claim that is given back is not had again for it. Raises StatusError."""
        if self._features.withdraws_node and own.context.stored_node:
            own.context.selected_node = ""
            await self._contexts.publish(self._client, own.context, pod)

    async def post_bind(self, pod: PodInfo) -> None:
        await self._contexts.delete(self._client, pod)

    def _wait(self, text: str) -> Status:
        return Status(self._waiting, (text,))
