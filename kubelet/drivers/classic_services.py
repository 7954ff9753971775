"""The gRPC services that kubelets of 1.26 to 1.30 call of a driver on one node.

The example driver's handle is `{"EnvVars": {…}, "NodeName": "…"}`, as its controller writes it; of what
1.30's scheduler allocates, parameters become variables `admin_KEY` and `user_KEY`, and the instances' names
one more.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
import orjson

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.claims import CallLog, ClaimError, ClaimRef, PreparedClaims, variable
from kubeskew.kubelet.drivers.features import PluginLibrary
from kubeskew.kubelet.drivers.semantic.preparation import (
    Amount,
    amounts_in,
    resources_in,
    unavailable,
    variables_in,
)
from kubeskew.kubelet.drivers.switches import Switches
from kubeskew.kubelet.protocols import dra_classic, semantic_resources
from kubeskew.kubelet.protocols.dra_classic import ClassicService
from kubeskew.kubelet.protocols.grpc_calls import UNIMPLEMENTED, RpcError
from kubeskew.kubelet.protocols.message_sockets import Server
from kubeskew.kubelet.protocols.named_resources import response_of

log = logging.getLogger(__name__)


def services_of(library: Version, apis: Sequence[str]) -> list[ClassicService]:
    """Returns the services that a driver serves which is built with this library; `apis` chooses some."""
    known = PluginLibrary.of(FeatureGates(library)).classic_services
    return [service for service in known if not apis or service.name in apis]


class ClassicServices:
    """Answers for one node. `switches` is read with each call."""

    def __init__(
        self,
        driver: str,
        claims: PreparedClaims,
        calls: CallLog,
        resources: Callable[[], Sequence[Object] | None] = lambda: None,
        *,
        semantic: bool = False,
    ) -> None:
        """`resources` returns the named resources, one entry per slice; None if the driver reports none.

        With `semantic` they are resources of semantic models instead.
        """
        self._semantic = semantic
        self.switches = Switches()
        self._resources = resources
        self._turned = asyncio.Event()
        self._streams = 0  # of kubelets that ask for resources
        self._driver = driver
        self._claims = claims
        self._calls = calls
        self._serial = asyncio.Lock()

    def serve(self, server: Server, services: Sequence[ClassicService]) -> None:
        for service in services:
            self._serve(server, service)

    def report(self) -> None:
        """Sends the kubelet the named resources again, if they changed."""
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()

    def _serve(self, server: Server, service: ClassicService) -> None:
        if service.reports_resources:
            dra_classic.NODE_RESOURCES.serve(server, self._list_and_watch)
        handle = {
            ("prepare", True): self._prepare_all,
            ("unprepare", True): self._unprepare_all,
            ("prepare", False): self._prepare_one,
            ("unprepare", False): self._unprepare_one,
        }
        for verb, method in (("prepare", service.prepare), ("unprepare", service.unprepare)):
            answer = handle[verb, service.batches]

            async def called(request: Any, answer: Any = answer, method: Any = method) -> Any:
                log.info("handling request started: %s of %s", method.name, _claims_of(request, service))
                return await answer(request, method)

            method.serve(server, called)

    async def _list_and_watch(self, _: Any) -> AsyncIterator[Any]:
        last = None
        self._streams += 1
        try:
            while True:
                turned, resources = self._turned, self._resources()
                if resources is None:
                    text = "method NodeListAndWatchResources not implemented"
                    raise RpcError(UNIMPLEMENTED, text)
                response = self._response(resources)
                if response != last:
                    yield response
                    last = response
                await turned.wait()
        finally:
            self._streams -= 1

    def reported_digest(self) -> str:
        """Digest of the resources that a kubelet which asks for them has to know by now; empty if none asks,
        or the resources cannot be read."""
        try:
            resources = self._resources() if self._streams else None
        except RpcError:
            return ""
        return dra_classic.digest(self._response(resources)) if resources is not None else ""

    def _response(self, resources: Sequence[Object]) -> Any:
        if self._semantic:
            return semantic_resources.response_of(resources, newer_model=self.switches.newer_model)
        return response_of(resources)

    async def _prepare_one(self, request: Any, method: Any) -> Any:
        ref = ClaimRef(request.namespace, request.claim_name, request.claim_uid)
        self._refuse(method.name, [ref], self.switches.refuse_prepare)
        async with self._serial:
            ids = self._claims.prepare_handle(ref, self._variables(request.resource_handle, ()))
        self._note(method.name, ref, ids)
        return method.response(cdi_devices=ids)

    async def _unprepare_one(self, request: Any, method: Any) -> Any:
        ref = ClaimRef(request.namespace, request.claim_name, request.claim_uid)
        self._refuse(method.name, [ref], self.switches.refuse_unprepare)
        self._claims.unprepare(ref)
        self._note(method.name, ref, ())
        return method.response()

    async def _prepare_all(self, request: Any, method: Any) -> Any:
        refs = [ClaimRef(claim.namespace, claim.name, claim.uid) for claim in request.claims]
        self._refuse(method.name, refs, "")
        response = method.response()
        for ref, claim in zip(refs, request.claims, strict=True):
            entry = response.claims[ref.uid]
            ids: Sequence[str] = ()
            try:
                if self.switches.refuse_prepare:
                    raise ClaimError(self.switches.refuse_prepare)
                async with self._serial:
                    ids = self._prepare(ref, claim)
            except ClaimError as error:
                entry.error = str(error)
            entry.cdi_devices.extend(ids)
            self._note(method.name, ref, ids, entry.error)
        return response

    def _prepare(self, ref: ClaimRef, claim: Any) -> Sequence[str]:
        """Raises ClaimError."""
        handles = claim.semantic_resource_handle
        if not handles:
            variables = self._variables(claim.resource_handle, claim.structured_resource_handle)
            return self._claims.prepare_handle(ref, variables)
        amounts = amounts_in(handles)
        held = dict(self._claims.allocations())
        if ref.uid not in held:  # what is prepared keeps what it has
            others = [Amount(*entry) for entries in held.values() for entry in entries]
            lacking = unavailable(self._resources() or (), others, resources_in(handles), amounts)
            if lacking:
                raise ClaimError(f"claim {ref.namespace}/{ref.name}: {lacking}")
        variables = variables_in(self._driver, handles, amounts)
        return self._claims.prepare_handle(ref, variables, [[*amount] for amount in amounts])

    async def _unprepare_all(self, request: Any, method: Any) -> Any:
        refs = [ClaimRef(claim.namespace, claim.name, claim.uid) for claim in request.claims]
        self._refuse(method.name, refs, "")
        response = method.response()
        for ref in refs:
            response.claims[ref.uid].error = self.switches.refuse_unprepare
            if not self.switches.refuse_unprepare:
                self._claims.unprepare(ref)
            self._note(method.name, ref, (), self.switches.refuse_unprepare)
        return response

    def _refuse(self, call: str, refs: Sequence[ClaimRef], why: str) -> None:
        """Raises RpcError if the whole call is to fail."""
        why = why or self.switches.fail_calls
        if why:
            self._calls.append(call, refs, {}, why)
            raise RpcError(grpc.StatusCode.UNKNOWN, why)

    def _note(self, call: str, ref: ClaimRef, ids: Sequence[str], error: str = "") -> None:
        devices = [{"pool": "", "device": "", "requests": [], "cdiIDs": list(ids), "shareID": ""}]
        self._calls.append(call, [ref], {ref.uid: {"error": error, "devices": devices if ids else []}})

    def _variables(self, data: str, structured: Sequence[Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        if data:
            try:
                found = dict(orjson.loads(data).get("EnvVars") or {})
            except (orjson.JSONDecodeError, AttributeError) as error:
                raise RpcError(grpc.StatusCode.UNKNOWN, f"unmarshal resource handle: {error}") from error
            found["claim"] = "true"
        for handle in structured:
            found |= _parameters("admin", handle.vendor_class_parameters.raw)
            found |= _parameters("user", handle.vendor_claim_parameters.raw)
            for result in handle.results:
                found |= _parameters("user", result.vendor_request_parameters.raw)
            names = [result.allocation_result_model.named_resources.name for result in handle.results]
            found[variable(self._driver)] = ",".join(names)
        return found


def _claims_of(request: Any, service: ClassicService) -> str:
    if not service.batches:
        return f"{request.namespace}/{request.claim_name}"
    return ", ".join(f"{claim.namespace}/{claim.name}" for claim in request.claims)


def _parameters(kind: str, content: bytes) -> dict[str, str]:
    values = orjson.loads(content) if content else None
    if not isinstance(values, dict):
        return {}
    return {f"{kind}_{key.lower()}": str(value) for key, value in values.items()}
