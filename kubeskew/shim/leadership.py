"""The lease of a program: whether it leads, by its writes, and the lease's return after the program's end."""

import logging
from typing import Any

import orjson

from kubeskew.apimachinery.client.leader import released
from kubeskew.apimachinery.client.refs import LEASES
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.faults.fault import call_of
from kubeskew.apimachinery.protobuf_wire import MAGIC, payload, raw_object

_WRITES = frozenset({"create", "update", "patch"})
_SPEC, _HOLDER = 2, 1  # of coordination.k8s.io/v1 Lease and LeaseSpec

log = logging.getLogger(__name__)


class Leadership:
    """Follows the writes of a lease. The program leads once one of them succeeded: until then it only
    reads."""

    def __init__(self, lease: str) -> None:
        self.namespace, _, self.name = lease.partition("/")
        self.leading = False
        self.identity = ""  # empty while the program does not lead, or if no write had it

    def is_write(self, method: str, target: str, body: bytes | None) -> bool:
        """True for a request that writes the lease."""
        if method == "GET" or "/leases" not in target or not self.name:
            return False
        call = call_of(method, target, body)
        return (
            call is not None
            and call.verb in _WRITES
            and (call.group, call.resource, call.subresource) == ("coordination.k8s.io", "leases", "")
            and (call.namespace, call.name) == (self.namespace, self.name)
        )

    def written(self, body: bytes | None) -> None:
        """Notes a write that succeeded; one without a holder gives the lease back."""
        holder = _holder(body or b"")
        if holder is None:
            self.leading = True
        else:
            self.leading, self.identity = bool(holder), holder

    async def give_back(self, client: APIClient, clock: Clock) -> None:
        """Releases the lease as client-go's ReleaseOnCancel does, unless another one has it by now.

        kube-controller-manager ends without doing so.
        """
        if not self.identity:
            return
        try:
            lease = await client.get(LEASES, self.name, self.namespace)
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") == self.identity:
                lease["spec"] = released(spec, clock.now())
                await client.update(LEASES, lease)
        except (StatusError, TimeoutError, *CONNECTION_ERRORS) as error:
            log.info("failed to release lease %s/%s: %s", self.namespace, self.name, error)


def _holder(body: bytes) -> str | None:
    """None if the body names none, as a patch of something else."""
    if body.startswith(MAGIC):
        return payload(payload(raw_object(body), _SPEC), _HOLDER).decode("utf-8", "replace")
    try:
        spec: Any = (orjson.loads(body) or {}).get("spec") or {}
        holder = spec.get("holderIdentity")
    except (orjson.JSONDecodeError, AttributeError):
        return None
    return holder if isinstance(holder, str) else None
