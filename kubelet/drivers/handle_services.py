"""Services of a driver whose kubelet gets CDI ids alone: those of generations before today's."""

import asyncio
from collections.abc import Sequence

import grpc

from kubeskew.kubelet.drivers.claims import CallLog, ClaimRef, PreparedClaims
from kubeskew.kubelet.drivers.switches import Switches
from kubeskew.kubelet.protocols.grpc_calls import RpcError


class HandleServices:
    """Refuses calls by the switches, which are read with each call, and notes calls in the log."""

    def __init__(self, claims: PreparedClaims, calls: CallLog) -> None:
        self.switches = Switches()
        self._claims = claims
        self._calls = calls
        self._serial = asyncio.Lock()

    def _refuse(self, call: str, refs: Sequence[ClaimRef], why: str) -> None:
        """Raises RpcError if the whole call is to fail."""
        why = why or self.switches.fail_calls
        if why:
            self._calls.append(call, refs, {}, why)
            raise RpcError(grpc.StatusCode.UNKNOWN, why)

    def _note(self, call: str, ref: ClaimRef, ids: Sequence[str], error: str = "") -> None:
        devices = [{"pool": "", "device": "", "requests": [], "cdiIDs": list(ids), "shareID": ""}]
        self._calls.append(call, [ref], {ref.uid: {"error": error, "devices": devices if ids else []}})
