"""Registers the node, and keeps its status current at the API server."""

import asyncio
import logging

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import NODES
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.device_managers import DevicePlugins
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.node.config import NodeConfig
from kubeskew.kubelet.node.object import (
    OWNED_FIELDS,
    event_subject,
    initial_node,
    node_status,
    without_extended_resources,
    without_heartbeats,
)
from kubeskew.kubelet.start_limiter import StartLimiter
from kubeskew.kubelet.status.patch import status_patch

log = logging.getLogger(__name__)


UPDATE_SECONDS = 10.0  # nodeStatusUpdateFrequency
REPORT_SECONDS = 300.0  # nodeStatusReportFrequency: an unchanged status is written this often
# Upstream's text for a runtime that has not answered yet (pkg/kubelet/runtime.go).
_STARTING = "container runtime status check may not have completed yet"
_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 0.1, 1.0  # upstream: up to 7 s


class NodeStatusReporter:
    """The Node object of one kubelet."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        features: KubeletFeatures,
        config: NodeConfig,
        recorder: EventRecorder,
        *,
        port: int,
        plugins: DevicePlugins,
    ) -> None:
        self._client = client
        self._clock = clock
        self._features = features
        self._config = config
        self._recorder = recorder
        self.port = port
        self._plugins = plugins
        self._woken = asyncio.Event()
        self._node: Object = initial_node(config, {})
        self._reported_at: float | None = None
        self._unschedulable = False  # as last posted
        self.posted_ready = False  # posted by this process

    @property
    def node(self) -> Object:
        """Returns the node as the server last returned it."""
        return self._node

    async def register(self, starts: StartLimiter) -> bool:
        """Creates the Node, or takes over the existing one; retries until the server is reachable.

        Waits for a slot before each attempt. Returns whether the node is new.
        """
        delay = _FIRST_RETRY_SECONDS
        while True:
            try:
                async with starts.slot():
                    self._node, is_new = await self._create_or_take_over()
            except (StatusError, *CONNECTION_ERRORS) as error:
                log.warning("cannot register node %s yet: %s", self._config.name, error)
                await self._clock.sleep(delay)
                delay = min(delay * 2, _LONGEST_RETRY_SECONDS)
            else:
                self._unschedulable = self._is_unschedulable()
                return is_new

    async def run(self) -> None:
        """Writes the status now, whenever it changes, and every five minutes.

        Call it once the node is ready: one that was ready before a restart of its kubelet stays so.
        """
        delay = _FIRST_RETRY_SECONDS
        while True:
            try:
                await self._report()
            except (StatusError, *CONNECTION_ERRORS) as error:
                log.warning("cannot update the status of node %s: %s", self._config.name, error)
                # Someone deleted the node: as upstream, only a restart registers it again.
                deleted = isinstance(error, StatusError) and error.code == 404
                await self._clock.sleep(UPDATE_SECONDS if deleted else delay)
                delay = min(delay * 2, _LONGEST_RETRY_SECONDS)
                continue
            delay = _FIRST_RETRY_SECONDS
            await self._pause()

    def wake(self) -> None:
        """Has a change of the status written. (Upstream looks every ten seconds.)"""
        self._woken.set()

    async def _pause(self) -> None:
        waiting = asyncio.ensure_future(self._woken.wait())
        sleeping = asyncio.ensure_future(self._clock.sleep(UPDATE_SECONDS))
        try:
            await asyncio.wait({waiting, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()

    def _status(self, not_ready: str = "") -> Object:
        return node_status(
            self._config,
            self._features,
            self._node.get("status") or {},
            self._plugins.capacity(),
            not_ready=not_ready,
            port=self.port,
            now=self._clock.now(),
        )

    async def _create_or_take_over(self) -> tuple[Object, bool]:
        """Returns (the node, whether it is new)."""
        wanted = initial_node(self._config, {})
        self._node = wanted
        wanted["status"] = self._status(_STARTING)
        try:
            return await self._client.create(NODES, wanted), True
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        present = await self._client.get(NODES, self._config.name)
        if self._plugins.is_new:
            present = await self._without_extended_resources(present)
        labels = wanted["metadata"]["labels"]
        known = present["metadata"].get("labels") or {}
        if all(known.get(key) == value for key, value in labels.items()):
            return present, False
        body = {"metadata": {"labels": labels}}
        return await self._client.patch(NODES, self._config.name, "", body, STRATEGIC_PATCH), False

    async def _without_extended_resources(self, present: Object) -> Object:
        status = without_extended_resources(present)
        patch = status_patch(present.get("status") or {}, status, ("capacity", "allocatable"))
        if not patch:
            return present
        name, body = self._config.name, {"status": patch}
        return await self._client.patch(NODES, name, "", body, STRATEGIC_PATCH, subresource="status")

    async def refresh(self) -> None:
        """Reads the node as it is now."""
        self._node = await self._client.get(NODES, self._config.name)

    async def _report(self) -> None:
        self._woken.clear()
        if self._reported_at is not None:
            # Others write it, too: the node lifecycle controller, when there were no heartbeats.
            await self.refresh()
            self._tell_schedulable()
        present = self._node.get("status") or {}
        status = self._status()
        ours = {name: present.get(name) for name in OWNED_FIELDS}
        now = self._clock.monotonic()
        due = self._reported_at is None or now - self._reported_at >= REPORT_SECONDS
        if not due and without_heartbeats(status) == without_heartbeats(ours):
            return
        patch = status_patch(present, status, OWNED_FIELDS)
        if patch:
            body = {"status": patch}
            self._node = await self._client.patch(
                NODES, self._config.name, "", body, STRATEGIC_PATCH, subresource="status"
            )
        self._reported_at = now
        self._tell_transition(present)
        self.posted_ready = True

    def _is_unschedulable(self) -> bool:
        return bool((self._node.get("spec") or {}).get("unschedulable"))

    def _tell_schedulable(self) -> None:
        if self._is_unschedulable() == self._unschedulable:
            return
        self._unschedulable = not self._unschedulable
        self._tell("NodeNotSchedulable" if self._unschedulable else "NodeSchedulable")

    def _tell(self, reason: str) -> None:
        message = f"Node {self._config.name} status is now: {reason}"
        self._recorder.event(event_subject(self._config.name), "Normal", reason, message)

    def _tell_transition(self, before: Object) -> None:
        was_ready = any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in before.get("conditions") or []
        )
        if not was_ready:
            self._tell("NodeReady")
