"""The node's heartbeat.

A lease in `kube-node-lease`, renewed every ten seconds (component-helpers, node/lease).
"""

import logging

from kubeskew.apimachinery.client.failure_log import FailureLog
from kubeskew.apimachinery.client.refs import LEASES
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock, micro_timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object

log = logging.getLogger(__name__)


NAMESPACE = "kube-node-lease"
DURATION_SECONDS = 40
RENEW_SECONDS = 10.0
_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 0.1, 1.0  # upstream: 0.2 s up to 7 s


class NodeLease:
    """The lease of one node."""

    def __init__(self, client: APIClient, clock: Clock, node_name: str, node_uid: str) -> None:
        self._client = client
        self._clock = clock
        self._node_name = node_name
        self._node_uid = node_uid
        self._lease: Object | None = None
        self._failures = FailureLog(log, clock)

    async def run(self) -> None:
        """Renews the lease for ever."""
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
