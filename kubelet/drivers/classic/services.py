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
from kubeskew.kubelet.drivers.classic.features import ClassicPluginLibrary
from kubeskew.kubelet.drivers.handle_services import HandleServices
from kubeskew.kubelet.protocols import dra_classic
from kubeskew.kubelet.protocols.dra_classic import ClassicService
from kubeskew.kubelet.protocols.grpc_calls import UNIMPLEMENTED, RpcError
from kubeskew.kubelet.protocols.message_sockets import Server
from kubeskew.kubelet.protocols.named_resources import response_of

log = logging.getLogger(__name__)


def services_of(library: Version, apis: Sequence[str]) -> list[ClassicService]:
    """Returns the services that a driver serves which is built with this library; `apis` chooses some."""
    known = ClassicPluginLibrary.of(FeatureGates(library)).services
    return [service for service in known if not apis or service.name in apis]


class ClassicServices(HandleServices):
    """Answers for one node."""

    def __init__(
        self,
        driver: str,
        claims: PreparedClaims,
        calls: CallLog,
        resources: Callable[[], Sequence[Object] | None] = lambda: None,
    ) -> None:
        """`resources` returns what the driver reports; None if it reports nothing."""
        super().__init__(claims, calls)
        self._resources = resources
        self._turned = asyncio.Event()
        self._streams = 0  # of kubelets that ask for resources
        self._driver = driver

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
        """The message for named resources, one entry per slice."""
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
        variables = self._variables(claim.resource_handle, claim.structured_resource_handle)
        return self._claims.prepare_handle(ref, variables)

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
