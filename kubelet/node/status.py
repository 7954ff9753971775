"""Registers the node, and keeps its status and its lease current at the API server.

The lease is in `kube-node-lease` and renewed every ten seconds (component-helpers, node/lease). The Node
object is watched, so the kubelet sees it as late as its watch is. A few nodes of a process at a time do what
all of them do at their start.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import LEASES, NODES
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, STRATEGIC_PATCH, APIClient, FailureLog
from kubeskew.apimachinery.clock import Clock, Entropy, micro_timestamp
from kubeskew.apimachinery.conditions import is_condition_true
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.runtime_service import OWN_STATUS, RuntimeStatus
from kubeskew.kubelet.containers.sandbox import RUNTIME_VERSION
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
from kubeskew.kubelet.status.status_manager import status_patch

log = logging.getLogger(__name__)


NAMESPACE = "kube-node-lease"
DURATION_SECONDS = 40
RENEW_SECONDS = 10.0
_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 0.1, 1.0  # upstream: 0.2 s up to 7 s
UPDATE_SECONDS = 10.0  # nodeStatusUpdateFrequency
REPORT_SECONDS = 300.0  # nodeStatusReportFrequency: an unchanged status is written this often
# Upstream's text for a runtime that has not answered yet (pkg/kubelet/runtime.go).
_STARTING = "container runtime status check may not have completed yet"


class StartLimiter:
    """Gives slots to `at_a_time` tasks, each for at most `seconds`: a stuck one holds up nobody."""

    def __init__(self, at_a_time: int, seconds: float) -> None:
        self._free = asyncio.Semaphore(at_a_time)
        self._seconds = seconds

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for a slot. Work that takes longer than that goes on without it."""
        await self._free.acquire()
        held = True

        def give_back() -> None:
            nonlocal held
            if held:
                held = False
                self._free.release()

        timer = asyncio.get_running_loop().call_later(self._seconds, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()


class NodeLease:
    def __init__(self, client: APIClient, clock: Clock, node_name: str, node_uid: str) -> None:
        self._client = client
        self._clock = clock
        self._node_name = node_name
        self._node_uid = node_uid
        self._lease: Object | None = None
        self._failures = FailureLog(log, clock)

    async def run(self) -> None:
        """Renews the lease every ten seconds, until cancelled."""
        delay = _FIRST_RETRY_SECONDS
        while True:
            try:
                await self._renew()
            except (StatusError, *CONNECTION_ERRORS) as error:
                text = f"Failed to update lease of node {self._node_name}: {error}"
                if isinstance(error, StatusError) and error.code != 409:
                    self._failures.failed(text)
                else:
                    log.debug("%s", text)
                self._lease = None
                await self._clock.sleep(delay)
                delay = min(delay * 2, _LONGEST_RETRY_SECONDS)
            else:
                delay = _FIRST_RETRY_SECONDS
                await self._clock.sleep(RENEW_SECONDS)

    async def _renew(self) -> None:
        if self._lease is None:
            try:
                self._lease = await self._client.get(LEASES, self._node_name, NAMESPACE)
            except StatusError as error:
                if error.code != 404:
                    raise
                self._lease = await self._client.create(LEASES, self._wanted({}))
                return
        self._lease = await self._client.update(LEASES, self._wanted(self._lease))

    def _wanted(self, lease: Object) -> Object:
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node_name, "uid": self._node_uid}
        metadata = lease.get("metadata") or {"name": self._node_name, "namespace": NAMESPACE}
        spec = lease.get("spec") or {}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**metadata, "ownerReferences": metadata.get("ownerReferences") or [owner]},
            "spec": {
                **spec,
                "holderIdentity": self._node_name,
                "leaseDurationSeconds": DURATION_SECONDS,
                "renewTime": micro_timestamp(self._clock.now()),
            },
        }


class CachedNode:
    """The node of one kubelet by its informer; until that has one, as the server last returned it.

    Only a kubelet that admits pods by it alone (until 1.34) has the informer: the others ask the server
    before they refuse a pod, and each watch costs.
    """

    def __init__(self, name: str, returned: Callable[[], Object], informer: Informer | None) -> None:
        self._name = name
        self._returned = returned
        self._informer = informer

    @classmethod
    def of(
        cls,
        name: str,
        returned: Callable[[], Object],
        client: APIClient,
        clock: Clock,
        entropy: Entropy,
        *,
        watched: bool,
    ) -> "CachedNode":
        selector = f"metadata.name={name}"
        informer = Informer(client, NODES, clock, "", selector, entropy=entropy) if watched else None
        return cls(name, returned, informer)

    @property
    def node(self) -> Object:
        found = self._informer.get("", self._name) if self._informer is not None else None
        return self._returned() if found is None else found

    def start(self) -> None:
        if self._informer is not None:
            self._informer.start()

    async def stop(self) -> None:
        if self._informer is not None:
            await self._informer.stop()


# upstream: up to 7 s


class NodeStatusReporter:
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
        not_ready: Callable[[], str] = str,
        runtime_version: Callable[[], str] = lambda: RUNTIME_VERSION,
        runtime_status: Callable[[], RuntimeStatus] = lambda: OWN_STATUS,
    ) -> None:
        """`not_ready` says why the node is not ready; empty while it is."""
        self._client = client
        self._clock = clock
        self._features = features
        self._config = config
        self._recorder = recorder
        self.port = port
        self._plugins = plugins
        self._not_ready = not_ready
        self._runtime_version = runtime_version
        self._runtime_status = runtime_status
        self._woken = asyncio.Event()
        self._node: Object = initial_node(config, {})
        self._reported_at: float | None = None
        self._unschedulable = False  # as last posted
        self.posted_ready = False  # posted by this process

    @property
    def node(self) -> Object:
        """The node is as the server last returned it."""
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
        """Makes `run` write a change of the status at once. (Upstream looks every ten seconds.)"""
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
            runtime_version=self._runtime_version(),
            runtime=self._runtime_status(),
            port=self.port,
            now=self._clock.now(),
        )

    async def _create_or_take_over(self) -> tuple[Object, bool]:
        """The second value is True for a new node."""
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
        self._node = await self._client.get(NODES, self._config.name)

    async def _report(self) -> None:
        self._woken.clear()
        if self._reported_at is not None:
            # Others write it, too: the node lifecycle controller, when there were no heartbeats.
            await self.refresh()
            self._report_schedulable()
        present = self._node.get("status") or {}
        status = self._status(self._not_ready())
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
        self._report_transition(present)
        self.posted_ready = True

    def _is_unschedulable(self) -> bool:
        return bool((self._node.get("spec") or {}).get("unschedulable"))

    def _report_schedulable(self) -> None:
        if self._is_unschedulable() == self._unschedulable:
            return
        self._unschedulable = not self._unschedulable
        self._emit_event("NodeNotSchedulable" if self._unschedulable else "NodeSchedulable")

    def _emit_event(self, reason: str) -> None:
        message = f"Node {self._config.name} status is now: {reason}"
        self._recorder.event(event_subject(self._config.name), "Normal", reason, message)

    def _report_transition(self, before: Object) -> None:
        if not is_condition_true({"status": before}, "Ready"):
            self._emit_event("NodeReady")
