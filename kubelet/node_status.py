"""Registers the node, and keeps its status current at the API server."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from apimachinery.client.refs import NODES
from apimachinery.client.rest import CONNECTION_ERRORS, STRATEGIC_PATCH, APIClient
from apimachinery.clock import Clock
from apimachinery.errors import StatusError
from kubelet.behaviour import Behaviour
from kubelet.node_config import NodeConfig
from kubelet.node_object import OWNED_FIELDS, initial_node, node_status, without_heartbeats
from kubelet.status_patch import status_patch

log = logging.getLogger(__name__)

Object = dict[str, Any]

UPDATE_SECONDS = 10.0  # nodeStatusUpdateFrequency
REPORT_SECONDS = 300.0  # nodeStatusReportFrequency: an unchanged status is written this often
_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 0.1, 7.0


class NodeStatusReporter:
    """The Node object of one kubelet."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        behaviour: Behaviour,
        config: NodeConfig,
        *,
        port: int,
        not_ready: Callable[[], str],
    ) -> None:
        self._client = client
        self._clock = clock
        self._behaviour = behaviour
        self._config = config
        self._port = port
        self._not_ready = not_ready  # why the node is not ready; empty if it is
        self._wake = asyncio.Event()
        self._node: Object = initial_node(config, {})
        self._reported_at: float | None = None
        self.posted_ready = False  # by this process

    @property
    def node(self) -> Object:
        """The node as the server last showed it."""
        return self._node

    def refresh(self) -> None:
        """Look at the status now rather than in ten seconds."""
        self._wake.set()

    async def register(self) -> None:
        """Create the Node, or take over the one that is there; tries until the server is reachable."""
        delay = _FIRST_RETRY_SECONDS
        while True:
            try:
                self._node = await self._create_or_take_over()
            except (StatusError, *CONNECTION_ERRORS) as error:
                log.warning("cannot register node %s yet: %s", self._config.name, error)
                await self._clock.sleep(delay)
                delay = min(delay * 2, _LONGEST_RETRY_SECONDS)
            else:
                return

    async def run(self) -> None:
        """Write the status whenever it changes, and every five minutes."""
        delay = _FIRST_RETRY_SECONDS
        while True:
            self._wake.clear()
            try:
                await self._report()
            except (StatusError, *CONNECTION_ERRORS) as error:
                log.warning("cannot update the status of node %s: %s", self._config.name, error)
                await self._clock.sleep(delay)
                delay = min(delay * 2, UPDATE_SECONDS)
                continue
            delay = _FIRST_RETRY_SECONDS
            await self._pause()

    async def _pause(self) -> None:
        waiting = asyncio.ensure_future(self._wake.wait())
        sleeping = asyncio.ensure_future(self._clock.sleep(UPDATE_SECONDS))
        try:
            await asyncio.wait({waiting, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()

    def _status(self) -> Object:
        return node_status(
            self._config,
            self._behaviour,
            self._node.get("status") or {},
            not_ready=self._not_ready(),
            port=self._port,
            now=self._clock.now(),
        )

    async def _create_or_take_over(self) -> Object:
        wanted = initial_node(self._config, {})
        self._node = wanted
        wanted["status"] = self._status()
        try:
            return await self._client.create(NODES, wanted)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        present = await self._client.get(NODES, self._config.name)
        labels = wanted["metadata"]["labels"]
        known = present["metadata"].get("labels") or {}
        if all(known.get(key) == value for key, value in labels.items()):
            return present
        body = {"metadata": {"labels": labels}}
        return await self._client.patch(NODES, self._config.name, "", body, STRATEGIC_PATCH)

    async def _report(self) -> None:
        present = self._node.get("status") or {}
        status = self._status()
        changed = without_heartbeats(status) != without_heartbeats(
            {name: present.get(name) for name in OWNED_FIELDS}
        )
        now = self._clock.monotonic()
        due = self._reported_at is None or now - self._reported_at >= REPORT_SECONDS
        if not changed and not due:
            return
        # Upstream reads the node first, from the server's cache: others write to it too.
        self._node = await self._client.get(NODES, self._config.name)
        status = self._status()
        patch = status_patch(self._node.get("status") or {}, status, OWNED_FIELDS)
        if patch:
            body = {"status": patch}
            self._node = await self._client.patch(
                NODES, self._config.name, "", body, STRATEGIC_PATCH, subresource="status"
            )
        self._reported_at = now
        self.posted_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status["conditions"])
