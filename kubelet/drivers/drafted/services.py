"""The gRPC service of a resource plugin on one node, as KEP-3063's draft has it.

The kubelet names the UID of a claim alone. What the claim got stands in its status: attributes `user_KEY` and
`admin_KEY` become variables of its containers, and so do its device and its memory.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.drivers.claims import CallLog, ClaimRef, PreparedClaims, variable
from kubeskew.kubelet.drivers.handle_services import HandleServices
from kubeskew.kubelet.protocols import dra_drafted
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.message_sockets import Server

FindClaim = Callable[[str], Awaitable[Object | None]]


class DraftedServices(HandleServices):
    """Answers for one node."""

    def __init__(self, claims: PreparedClaims, find: FindClaim, calls: CallLog) -> None:
        super().__init__(claims, calls)
        self._find = find

    def serve(self, server: Server) -> None:
        dra_drafted.PREPARE.serve(server, self._prepare)
        dra_drafted.UNPREPARE.serve(server, self._unprepare)

    async def _prepare(self, request: Any) -> Any:
        uid = request.resource_uid
        known = next((entry for entry in self._claims.all() if entry["uid"] == uid), None)
        ref = ClaimRef("", "", uid) if known is None else ClaimRef(known["namespace"], known["name"], uid)
        self._refuse("NodePrepareResource", [ref], self.switches.refuse_prepare)
        if known is not None:
            ids = [cdi_id for device in known["devices"] for cdi_id in device["cdiIDs"]]
        else:
            claim = await self._allocated(uid)
            ref = ClaimRef(claim["metadata"]["namespace"], claim["metadata"]["name"], uid)
            async with self._serial:
                ids = list(self._claims.prepare_handle(ref, self._variables(claim)))
        self._note("NodePrepareResource", ref, ids)
        return dra_drafted.PREPARE.response(cdi_device=ids)

    async def _unprepare(self, request: Any) -> Any:
        uid = request.resource_id
        known: Object = next((entry for entry in self._claims.all() if entry["uid"] == uid), {})
        ref = ClaimRef(known.get("namespace", ""), known.get("name", ""), uid)
        self._refuse("NodeUnprepareResource", [ref], self.switches.refuse_unprepare)
        self._claims.unprepare(ref)
        self._note("NodeUnprepareResource", ref, ())
        return dra_drafted.UNPREPARE.response()

    async def _allocated(self, uid: str) -> Object:
        """Finds the claim as its driver's controller has allocated it. Raises RpcError."""
        try:
            claim = await self._find(uid)
        except (StatusError, *CONNECTION_ERRORS) as error:
            raise RpcError(grpc.StatusCode.UNAVAILABLE, f"find resource {uid}: {error}") from error
        status = (claim or {}).get("status") or {}
        if claim is None or (status.get("phase"), status.get("driverName")) != (
            "Allocated",
            self._claims.driver,
        ):
            text = f"resource {uid} does not exist"
            self._calls.append("NodePrepareResource", [ClaimRef("", "", uid)], {}, text)
            raise RpcError(grpc.StatusCode.NOT_FOUND, text)
        return claim

    def _variables(self, claim: Object) -> dict[str, str]:
        attributes = claim["status"].get("attributes") or {}
        prefix = variable(self._claims.driver)
        found = {
            variable(key): value for key, value in attributes.items() if key.startswith(("user_", "admin_"))
        }
        for key in ("device", "memory"):
            if attributes.get(key):
                found[f"{prefix}_{key}"] = attributes[key]
        return {**found, variable(f"claim_{claim['metadata']['name']}"): "true"}
