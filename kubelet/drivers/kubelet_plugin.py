"""A driver's gRPC services and sockets on one node, by which the kubelet finds and calls it.

The services are preparing, unpreparing and health, in every version. Errors are worded as upstream's plugin
library words them, a driver's own as its test driver. Which services are announced depends on the release of
the library.

Source: k8s.io/dynamic-resource-allocation/kubeletplugin (draplugin.go).
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.drivers.claims import ClaimError, ClaimRef
from kubeskew.kubelet.drivers.features import HEALTH_SERVICE, PluginLibrary
from kubeskew.kubelet.drivers.generation import NodeParts, NodeServices
from kubeskew.kubelet.drivers.settings import Directories
from kubeskew.kubelet.drivers.switches import Switches
from kubeskew.kubelet.protocols import dra, grpc_calls, registration
from kubeskew.kubelet.protocols.grpc_calls import RpcError, Unary
from kubeskew.kubelet.protocols.message_sockets import Server
from kubeskew.kubelet.protocols.messages.plugin_registration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)

log = logging.getLogger(__name__)

_HEALTH_TIMEOUT_SECONDS = 30
_NOT_A_MESSAGE = b"\xff\xff\xff\xff"
_STATUSES = {"Unknown": 0, "Healthy": 1, "Unhealthy": 2}

_LONGEST_PATH = 107  # most bytes in the path of a Unix socket


class _Answer:
    """A message, or an invalid one: grpc only needs its bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name that protobuf's messages have
        return self._content


class DriverServices:
    """Implements `NodeServices`."""

    plugin_type = registration.DRA_PLUGIN

    def __init__(self, node: NodeParts) -> None:
        self._features = PluginLibrary.of(FeatureGates(node.library))
        self._claims = node.claims
        self._calls = node.calls
        self._clock = node.clock
        self._get_claim = node.get_claim
        self._health = node.health
        self._switches = node.node().switches
        self._serial = asyncio.Lock()  # upstream's library serializes the calls too
        self._turned = asyncio.Event()

    def turn(self, switches: Switches) -> None:
        self._switches = switches
        self.report()

    def report(self) -> None:
        """Reports health again."""
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()

    def reported_digest(self) -> str:
        """Empty: drivers publish their resources themselves."""
        return ""

    def versions(self, apis: Sequence[str]) -> Sequence[str]:
        return _chosen(self._features.services, apis)

    def serve(self, server: Server, apis: Sequence[str]) -> None:
        """Adds the services of the announced versions, and those of health."""
        versions = self.versions(apis)
        for name, service in dra.REGISTERED.items():
            if name in versions or service is dra.V1ALPHA4:
                self._serve_version(server, service)
        for version in (dra.HEALTH_V1, dra.HEALTH_V1ALPHA1):
            self._serve_health(server, version)

    def _serve_version(self, server: Server, service: dra.DraService) -> None:
        async def prepare(request: Any) -> _Answer:
            return await self._answer(service, "Prepare", request, self._prepare)

        async def unprepare(request: Any) -> _Answer:
            return await self._answer(service, "Unprepare", request, self._unprepare)

        for method, handle in ((service.prepare, prepare), (service.unprepare, unprepare)):
            raw: Unary[Any, Any] = Unary(method.service, method.name, method.request, _Answer)
            raw.serve(server, handle)

    def _serve_health(self, server: Server, service: dra.HealthService) -> None:
        def watch(_: Any) -> AsyncIterator[Any]:
            return self._watch(service.messages)

        service.watch.serve(server, watch)

    # -- calls

    async def _answer(
        self,
        service: dra.DraService,
        verb: str,
        request: Any,
        handle: Callable[[Sequence[ClaimRef]], Awaitable[dict[str, Object]]],
    ) -> _Answer:
        """Applies the switches, then `handle`, which returns the fields of the answer by UID."""
        refs = [ClaimRef(claim.namespace, claim.name, claim.uid) for claim in request.claims]
        call = f"Node{verb}Resources"
        claims = ", ".join(f"{ref.namespace}/{ref.name}" for ref in refs)
        log.info("handling request started: %s of %s", call, claims)
        await self._held_up()
        if self._switches.garbage == "bytes":
            self._calls.append(call, refs, {}, "answered with bytes that are no message")
            return _Answer(_NOT_A_MESSAGE)
        response = getattr(service.messages, f"{call}Response")()
        if self._switches.garbage == "claims":
            self._calls.append(call, refs, {}, "answered for a claim that nobody asked for")
            response.claims["00000000-0000-0000-0000-000000000000"].error = ""
            return _Answer(response.SerializeToString())
        answers = await self._handled(verb, refs, handle)
        self._calls.append(call, refs, answers)
        for uid, fields in answers.items():
            entry = response.claims[uid]
            entry.error = fields.get("error", "")
            for device in fields.get("devices", ()):
                _fill(entry.devices.add(), device)
        return _Answer(response.SerializeToString())

    async def _handled(
        self,
        verb: str,
        refs: Sequence[ClaimRef],
        handle: Callable[[Sequence[ClaimRef]], Awaitable[dict[str, Object]]],
    ) -> dict[str, Object]:
        """Notes a call that fails as a whole, and raises its RpcError."""
        try:
            if self._switches.fail_calls:
                why = f"{verb.lower()} resource claims: {self._switches.fail_calls}"
                raise RpcError(grpc.StatusCode.UNKNOWN, why)
            async with self._serial:
                return await handle(refs)
        except RpcError as error:
            self._calls.append(f"Node{verb}Resources", refs, {}, str(error))
            raise

    async def _held_up(self) -> None:
        await self._clock.sleep(self._switches.delay)
        while self._switches.hang:
            await self._turned.wait()

    async def _prepare(self, refs: Sequence[ClaimRef]) -> dict[str, Object]:
        claims = [await self._allocated(ref) for ref in refs]
        refusal = self._switches.refuse_prepare
        if refusal:
            return {ref.uid: {"error": refusal} for ref in refs}
        answers: dict[str, Object] = {}
        for ref, claim in zip(refs, claims, strict=True):
            try:
                answers[ref.uid] = {"devices": self._claims.prepare(ref, claim)}
            except ClaimError as error:
                answers[ref.uid] = {"error": str(error)}
        return answers

    async def _allocated(self, ref: ClaimRef) -> Object:
        """Reads the claim; one that cannot be prepared fails the whole call. Raises RpcError."""
        where = f"{ref.namespace}/{ref.name}"
        try:
            claim = await self._get_claim(ref)
        except (StatusError, *CONNECTION_ERRORS) as error:
            raise _refused(f"retrieve claim {where}: {error}") from error
        if not (claim.get("status") or {}).get("allocation"):
            raise _refused(f"claim {where} not allocated")
        if claim["metadata"]["uid"] != ref.uid:
            raise _refused(f"claim {where} got replaced")
        return claim

    async def _unprepare(self, refs: Sequence[ClaimRef]) -> dict[str, Object]:
        refusal = self._switches.refuse_unprepare
        if not refusal:
            for ref in refs:
                self._claims.unprepare(ref)
        return {ref.uid: {"error": refusal} for ref in refs}

    # -- health

    async def _watch(self, messages: Any) -> AsyncIterator[Any]:
        """Yields every device at once, and again whenever something changes."""
        while True:
            turned = self._turned
            response = messages.NodeWatchResourcesResponse()
            for pool, device, health in self._health():
                entry = response.devices.add()
                entry.device.pool_name, entry.device.device_name = pool, device
                entry.health = _STATUSES[health.status]
                entry.last_updated_time = int(self._clock.now().timestamp())
                entry.health_check_timeout_seconds = _HEALTH_TIMEOUT_SECONDS
                entry.message = health.message
            yield response
            await _either(turned.wait(), self._clock.sleep(_HEALTH_TIMEOUT_SECONDS / 2))


def _refused(why: str) -> RpcError:
    return RpcError(grpc.StatusCode.UNKNOWN, f"get resource claims: {why}")


def _fill(message: Any, device: Object) -> None:
    message.pool_name, message.device_name = device["pool"], device["device"]
    message.request_names.extend(device["requests"])
    message.cdi_device_ids.extend(device["cdiIDs"])
    if device["shareID"] and "share_id" in message.DESCRIPTOR.fields_by_name:
        message.share_id = device["shareID"]


async def _either(*waits: Any) -> None:
    """Waits until one of them is over, and cancels the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


class DriverEndpoints:
    """The sockets of a driver: `start` shows the driver to the node's kubelet, `stop` hides it."""

    def __init__(
        self,
        driver: str,
        node: str,
        directories: Directories,
        services: NodeServices,
        on_registered: Callable[[], None],
        apis: Sequence[str] = (),
        instance: str = "",
    ) -> None:
        """`on_registered` is called once a kubelet has registered the driver.

        `apis` are the served versions of the DRA plugin's API, if not all that the library knows. `instance`
        distinguishes the sockets of two instances of the driver (a rolling update).
        """
        self._on_registered = on_registered
        self.registered = False
        self.refused = ""  # why the kubelet refused it
        self._driver = driver
        self._node = node
        self._apis = apis
        suffix = f"-{instance}" if instance else ""
        self._socket = directories.plugins / driver / f"dra{suffix}.sock"
        self._registrar = _registrar(directories.registrar, f"{driver}{suffix}")
        self._services = services
        self._servers: list[Any] = []

    async def start(self) -> None:
        """Starts to serve; raises OSError if a socket cannot be made."""
        plugin = grpc_calls.new_server()
        self._services.serve(plugin, self._apis)
        await self._listen(plugin, self._socket)
        shown = grpc_calls.new_server()
        registration.GET_INFO.serve(shown, self._info)
        registration.NOTIFY.serve(shown, self._notified)
        await self._listen(shown, self._registrar)

    async def stop(self) -> None:
        """Cancels calls in flight; removes the registrar's socket first, as upstream's helper does."""
        servers, self._servers = self._servers, []
        for server, socket in zip(servers[::-1], (self._registrar, self._socket), strict=False):
            await server.stop(0)
            _remove(socket)
        self.registered = False

    async def _listen(self, server: Any, socket: Path) -> None:
        _make_room(socket)
        server.listen(socket)
        await server.start()
        self._servers.append(server)

    async def _info(self, _: InfoRequest) -> PluginInfo:
        return PluginInfo(
            type=self._services.plugin_type,
            name=self._driver,
            endpoint=str(self._socket),
            supported_versions=self._services.versions(self._apis),
        )

    async def _notified(self, status: RegistrationStatus) -> RegistrationStatusResponse:
        self.registered = status.plugin_registered
        self.refused = "" if status.plugin_registered else status.error or "refused"
        if status.plugin_registered:
            log.info("node %s: registered with the kubelet", self._node)
            self._on_registered()
        else:
            log.error("node %s: the kubelet refused the plugin: %s", self._node, status.error)
        return RegistrationStatusResponse()


def _chosen(supported: Sequence[str], apis: Sequence[str]) -> tuple[str, ...]:
    """Kubelets see all supported names, or these versions of the plugin's own service and its health
    services."""
    if not apis:
        return tuple(supported)
    others = [name for name in supported if name.endswith(HEALTH_SERVICE)]
    return (*(f"{api}.DRAPlugin" for api in apis), *others)


def _make_room(socket: Path) -> None:
    """Removes the socket that a killed driver left."""
    socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove(socket)


def _remove(socket: Path) -> None:
    socket.unlink(missing_ok=True)


def _registrar(directory: Path, driver: str) -> Path:
    """A hash takes the driver's place where `DRIVER-reg.sock` is too long for a socket."""
    path = directory / f"{driver}-reg.sock"
    if len(str(path).encode()) <= _LONGEST_PATH:
        return path
    return directory / f"{hashlib.sha256(driver.encode()).hexdigest()[:12]}-reg.sock"
