"""Writes claims for the scheduler: allocations, reservations, and the extended-resource claim with its
deletion. The scheduler works with resource.k8s.io/v1; objects are converted if the server serves an older
version.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kubeskew.apimachinery.client.refs import Ref, dra_refs
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.allocator.binding_conditions import BindingError
from kubeskew.scheduler.allocator.claims import FINALIZER, allocation, display
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.pod_status import patch_pod_status

INTERNAL = "v1"
# client-go, retry.DefaultRetry
_TRIES = 5
_RETRY_SECONDS = 0.01


class VersionConverter:
    def __init__(self, version: Version) -> None:
        self.refs = dra_refs(version)
        self._same = self.refs.version == INTERNAL

    def incoming(self, ref: Ref, obj: Object) -> Object:
        """An object that has the v1 shape already is not copied."""
        if self._same:
            return obj
        typed = {"apiVersion": ref.api_version, "kind": ref.kind, **obj}
        return convert(typed, GroupVersionKind(ref.group, INTERNAL, ref.kind))

    def outgoing(self, ref: Ref, obj: Object) -> Object:
        internal = {"apiVersion": f"{ref.group}/{INTERNAL}", "kind": ref.kind}
        if self._same:
            return {**obj, **internal}
        return convert({**obj, **internal}, GroupVersionKind(ref.group, ref.version, ref.kind))


class NoConversion(VersionConverter):
    """Leaves objects as the server has them: classic releases have no other version to think in."""

    def incoming(self, ref: Ref, obj: Object) -> Object:
        return obj

    def outgoing(self, ref: Ref, obj: Object) -> Object:
        return obj


class ClaimError(Exception):
    """A write that no longer makes sense; the text is for people."""


FAILURES = (StatusError, ClaimError, BindingError, *CONNECTION_ERRORS)  # of binding a claim, or undoing it


class ClaimWriter:
    """Claims have the v1 shape on this side. Methods raise StatusError, ClaimError or a connection error."""

    def __init__(
        self,
        client: APIClient,
        edge: VersionConverter,
        clock: Clock,
        *,
        stamps: bool,
        finalizer: str = FINALIZER,
    ) -> None:
        """`stamps`: allocations have a timestamp, for binding conditions."""
        self._finalizer = finalizer
        self._client = client
        self._edge = edge
        self._ref = edge.refs.claims
        self._clock = clock
        self._stamps = stamps

    async def create(self, claim: Object) -> Object:
        """The server names the extended-resource claim; the result is its answer."""
        metadata = {key: value for key, value in claim["metadata"].items() if key not in ("name", "uid")}
        new = {"metadata": metadata, "spec": claim["spec"]}
        created = await self._client.create(
            self._ref, self._edge.outgoing(self._ref, new), metadata["namespace"]
        )
        return self._answer(created)

    async def bind(
        self,
        claim: Object,
        result: Mapping[str, Any] | None,
        consumer: Object,
        seen: Callable[[Object], None],
        *,
        extra_status: Mapping[str, Any] = MappingProxyType({}),
    ) -> Object:
        """Writes the allocation (if there is one to write) and the reservation for `consumer`.

        `seen` is called with every version of the claim that the server has accepted on the way;
        `extra_status` is written to the status with an allocation.
        """

        async def attempt(current: Object) -> Object:
            if current["metadata"].get("deletionTimestamp"):
                raise ClaimError(f"claim {display(current)} got deleted in the meantime")
            if result is not None:
                if allocation(current) is not None:
                    raise ClaimError(f"claim {display(current)} got allocated elsewhere in the meantime")
                if self._finalizer not in (current["metadata"].get("finalizers") or []):
                    current = await self._add_finalizer(current)
                    seen(current)
            return await self._reserve(current, None if result is None else (result, extra_status), consumer)

        return await self._retrying(claim, attempt, f"get updated claim {display(claim)} after conflict")

    async def _add_finalizer(self, claim: Object) -> Object:
        finalizers = [*(claim["metadata"].get("finalizers") or []), self._finalizer]
        try:
            return await self._update(_with_finalizers(claim, finalizers))
        except StatusError as error:
            raise _explained(f"add finalizer to claim {display(claim)}", error) from error

    async def _reserve(
        self,
        claim: Object,
        result: tuple[Mapping[str, Any], Mapping[str, Any]] | None,
        consumer: Object,
    ) -> Object:
        status = dict(claim.get("status") or {})
        if result is not None:
            status |= {**result[1], "allocation": dict(result[0])}
        status["reservedFor"] = [*(status.get("reservedFor") or []), consumer]
        what = "reservation" if result is None else "allocation and reservation"
        if self._stamps:
            self._stamp(claim, status)
        try:
            return await self._update({**claim, "status": status}, "status")
        except StatusError as error:
            raise _explained(f"add {what} to claim {display(claim)}", error) from error

    def _stamp(self, claim: Object, status: Object) -> None:
        allocated = status.get("allocation")
        if allocated is None:
            raise ClaimError(f"claim {display(claim)} got deallocated elsewhere in the meantime")
        if allocated.get("allocationTimestamp") is None:
            status["allocation"] = {**allocated, "allocationTimestamp": timestamp(self._clock.now())}

    async def unreserve(self, claim: Object, uid: str) -> Object:
        """Removes the reservation for the pod or group with that uid; the allocation stays."""
        metadata = claim["metadata"]
        body = {
            "metadata": {"uid": metadata["uid"]},
            "status": {"reservedFor": [{"$patch": "delete", "uid": uid}]},
        }
        patched = await self._client.patch(
            self._ref, metadata["name"], metadata["namespace"], body, STRATEGIC_PATCH, subresource="status"
        )
        return self._answer(patched)

    async def deallocate(self, claim: Object) -> Object:
        dropped = ("reservedFor", "allocation", "devices")
        status = {key: value for key, value in claim["status"].items() if key not in dropped}
        return await self._update({**claim, "status": status}, "status")

    async def delete(self, claim: Object) -> None:
        """Removes the finalizer by an update, even if there is none, then deletes the claim."""
        what = f"resourceclaim {display(claim)}"

        async def attempt(current: Object) -> Object:
            finalizers = current["metadata"].get("finalizers") or []
            rest = [finalizer for finalizer in finalizers if finalizer != self._finalizer]
            try:
                return await self._update(_with_finalizers(current, rest))
            except StatusError as error:
                raise _explained(f"update {what}", error) from error

        metadata = claim["metadata"]
        await self._retrying(claim, attempt, f"get {what}")
        await self._client.delete(
            self._ref, metadata["name"], metadata["namespace"], preconditions={"uid": metadata["uid"]}
        )

    async def announce(self, pod: PodInfo, claim: Object, mappings: Sequence[Object]) -> None:
        """The kubelet reads from the pod's status which claim and requests the pod's resources come from.

        Raises ClaimError without mappings.
        """
        where = f"pod {pod.key} ExtendedResourceClaimStatus"
        if not mappings:
            raise ClaimError(f"nil or empty request mappings, no update of {where}")
        status = {"requestMappings": [*mappings], "resourceClaimName": claim["metadata"]["name"]}
        body = {"status": {"extendedResourceClaimStatus": status}}
        try:
            await patch_pod_status(self._client, self._clock, pod, body)
        except StatusError as error:
            raise _explained(f"update {where}", error) from error

    def _answer(self, claim: Object) -> Object:
        """Answers lack managedFields, as informers' objects do."""
        claim["metadata"].pop("managedFields", None)
        return self._edge.incoming(self._ref, claim)

    async def _update(self, claim: Object, subresource: str = "") -> Object:
        written = await self._client.update(self._ref, self._edge.outgoing(self._ref, claim), subresource)
        return self._answer(written)

    async def _retrying(
        self, claim: Object, attempt: Callable[[Object], Awaitable[Object]], reading: str
    ) -> Object:
        """Repeats with the newest version after a conflict; `reading` is how errors name the read."""
        current = claim
        for number in range(_TRIES):
            try:
                return await attempt(current)
            except StatusError as error:
                if not is_reason(error, "Conflict") or number == _TRIES - 1:
                    raise
            await self._clock.sleep(_RETRY_SECONDS)
            current = await self._refresh(claim, reading)
        raise AssertionError("unreachable: the last try raises")

    async def _refresh(self, claim: Object, reading: str) -> Object:
        metadata = claim["metadata"]
        try:
            found = await self._client.get(self._ref, metadata["name"], metadata["namespace"])
        except StatusError as error:
            raise _explained(reading, error) from error
        return self._answer(found)


def _with_finalizers(claim: Object, finalizers: list[str]) -> Object:
    """Copies the claim, for the given one is shared with others."""
    return {**claim, "metadata": {**claim["metadata"], "finalizers": finalizers}}


def _explained(what: str, error: StatusError) -> StatusError:
    return StatusError(error.code, error.reason, f"{what}: {error.message}", error.details)
