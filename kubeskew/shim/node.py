"""The node of a real kubelet: its directories, its container runtime, and what the cluster asks of a kubelet.

The runtime is served by CRI in the shim's process, so that its containers go on when the kubelet ends. What
an emulated kubelet says of itself to the cluster is read from a real one's files, from its metrics, and from
its Node object.
"""

import asyncio
import errno
import json
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from kubeskew.apimachinery.client.kubeconfig import ResumingContext, client_context
from kubeskew.apimachinery.client.refs import NODES, PODS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.client.transport import HTTPTransport, Request
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError
from kubeskew.kubelet.containers.container_page import container_page
from kubeskew.kubelet.containers.runtime_faults import RuntimeFaults
from kubeskew.kubelet.containers.usage import demand_of
from kubeskew.kubelet.cri_service import CRIService
from kubeskew.kubelet.dra.checkpoint import FILE_NAME
from kubeskew.kubelet.dra.features import DRAFeatures
from kubeskew.kubelet.journal import JournalledFiles
from kubeskew.kubelet.node.config import NodeLayout
from kubeskew.kubelet.pods.container_configs import acted
from kubeskew.kubelet.pods.pod_manager import MIRROR
from kubeskew.kubelet.protocols import registration
from kubeskew.kubelet.protocols.grpc_calls import RpcError, channel_to
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages
from kubeskew.kubelet.runtimes import runtime_of
from kubeskew.shim.program_file import Node
from kubeskew.shim.programs import Programs

KUBELET, LOGS = "/var/lib/kubelet", "/var/log"  # as the kubelet sees its node's directories
_POLL_SECONDS, _IDLE_SECONDS = 0.1, 2.0
_ANSWER_SECONDS = 2.0
_TRIES = 20
_IN_USE = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT)
_OK = 200
_REGISTERED = re.compile(
    r'^plugin_manager_total_plugins\{socket_path="(?P<path>[^"]*)",state="actual_state_of_world"\} [1-9]',
    re.MULTILINE,
)

log = logging.getLogger(__name__)


class RealNode:
    """Call `start` before the kubelet is started first, and `begin_again` whenever it is."""

    def __init__(self, url: str, node: Node, programs: Programs, ctx: ComponentContext) -> None:
        """`url` is the kubelet's."""
        self._node = node
        self._programs = programs
        self._ctx = ctx
        self._layout = layout = NodeLayout.under(node.root, node.config.name, node.sockets)
        clock, entropy = ctx.environment.clock, ctx.environment.entropy
        files = JournalledFiles(layout.node, ctx.client.newest_revision)
        made = runtime_of(node.config, layout, clock, entropy, files)
        self._containers = made.runtime
        self._service = CRIService(
            made,
            *(layout.node, layout.cdi, files, clock, entropy),
            places=((KUBELET, layout.kubelet), (LOGS, layout.node / "log")),
            acted=self._acted,
            faults=RuntimeFaults(ctx.faults.injector) if ctx.faults is not None else None,
        )
        self._transport = HTTPTransport(url, self.context())
        self._watching: asyncio.Task[None] | None = None
        self._codec = DRAFeatures.of(ctx.environment.gates).codec
        self._began: datetime | None = None  # the kubelet that runs
        self._ready_since: datetime | None = None
        self._was_ready = False  # since this shim began
        self._plugins: list[str] = []  # drivers
        self._known: frozenset[str] = frozenset()  # names of sockets that the kubelet has registered
        self._names: dict[tuple[str, int], str] = {}  # drivers by socket and its inode; empty for none

    async def start(self) -> None:
        """Raises ContainerRuntimeError, OSError."""
        _make_directories(self._layout)
        await self._service.start(self._node.cri_socket)
        self._watching = asyncio.create_task(self._watch(), name="real node")

    def context(self) -> ResumingContext:
        """Shows the kubelet the API server's certificate; the kubelet's own is not looked at."""
        context = client_context(insecure=True)
        context.load_cert_chain(self._node.certificate, self._node.key)
        return context

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._transport.close()
        await self._service.stop()

    def has_been_ready(self) -> bool:
        """A kubelet is healthy before it has read its files: only its node says that it works."""
        return self._was_ready

    def begin_again(self) -> None:
        """A kubelet starts: nothing is known of it."""
        self._began = self._ctx.environment.clock.now()
        self._ready_since = None
        self._plugins, self._known = [], frozenset()

    def add_pages(self, health: Health) -> None:
        name = self._node.config.name
        health.add_check("node", lambda: self._ready_since is not None or "not ready")
        health.add_page("/nodes", lambda: {name: self._state()})
        health.add_page("/containers", lambda: {name: self._shown_containers()})
        health.add_page("/prepared", lambda: {name: self._prepared()})
        health.add_page("/plugins", lambda: {name: self._plugins})
        health.add_page("/resources", lambda: {name: {}})

    async def _watch(self) -> None:
        """Looks at the node's readiness until it is ready, and at the kubelet's plugins."""
        while True:
            if self._ready_since is None:
                await self._look_at_node()
            if self._programs.running:
                await self._look_at_plugins()
            sockets = {path.name for path in self._layout.registry.glob("*.sock")}
            settled = self._ready_since is not None and sockets == self._known
            await self._ctx.environment.clock.sleep(_IDLE_SECONDS if settled else _POLL_SECONDS)

    # -- the node

    async def _look_at_node(self) -> None:
        """A kubelet that starts posts its node's status before long, also if it has not changed."""
        began = self._began
        if began is None:
            return
        try:
            node = await self._ctx.client.get(NODES, self._node.config.name)
        except (StatusError, *CONNECTION_ERRORS):
            return
        condition = find_condition(node, "Ready")
        if condition is None or condition.get("status") != "True":
            return
        posted = datetime.fromisoformat(condition["lastHeartbeatTime"])
        if posted >= began.replace(microsecond=0) and await self._has_its_pods():
            self._ready_since = self._ctx.environment.clock.now()
            self._was_ready = True

    async def _has_its_pods(self) -> bool:
        """The kubelet knows all pods of its node: it serves their streams, and has admitted those before. It
        lists static pods, not their mirrors."""
        selector = f"spec.nodeName={self._node.config.name}"
        try:
            bound = await self._ctx.client.list(PODS, field_selector=selector)
        except (StatusError, *CONNECTION_ERRORS):
            return False
        content = await self._page("/pods")
        if content is None:
            return False
        known = {pod_spec.uid_of(pod) for pod in json.loads(content).get("items") or []}
        return all(pod_spec.uid_of(pod) in known or _is_mirror(pod) for pod in bound["items"])

    async def _page(self, path: str) -> bytes | None:
        """Reads what the kubelet serves at a path; None if it does not."""
        try:
            response = await self._transport(Request("GET", path, timeout=_ANSWER_SECONDS))
            content = await response.body()
            await response.close()
        except (TimeoutError, *CONNECTION_ERRORS):
            return None
        return content if response.status == _OK else None

    def _state(self) -> Object:
        since = timestamp(self._ready_since) if self._ready_since is not None else None
        return {"ready": self._ready_since is not None and self._programs.running, "since": since}

    # -- plugins

    async def _look_at_plugins(self) -> None:
        content = await self._page("/metrics")
        if content is None:
            return
        paths = [Path(found["path"]) for found in _REGISTERED.finditer(content.decode("utf-8", "replace"))]
        names = [await self._driver(self._layout.registry / path.name) for path in paths]
        self._known = frozenset(path.name for path in paths)
        self._plugins = sorted(name for name in names if name)

    async def _driver(self, socket: Path) -> str:
        """The name that a DRA driver registers with; empty for other plugins, and for one that is silent."""
        key = _identity(socket)
        if key is None:
            return ""
        if key not in self._names:
            channel = channel_to(socket)
            try:
                info = await registration.GET_INFO.call(
                    channel, registration.InfoRequest(), timeout=_ANSWER_SECONDS
                )
            except RpcError:
                return ""
            finally:
                await channel.close()
            self._names[key] = info.name if info.type == registration.DRA_PLUGIN else ""
        return self._names[key]

    # -- claims and containers

    def _prepared(self) -> Mapping[str, list[Object]]:
        """Claims by driver, as the kubelet's checkpoint has them."""
        found: dict[str, list[Object]] = {}
        infos = []
        with suppress(OSError, CheckpointError, AttributeError, KeyError, TypeError):
            infos = self._codec.decode((self._layout.kubelet / FILE_NAME).read_bytes())
        for info in infos:
            for driver, devices in info.devices.items():
                entry = {**info.ref._asdict(), "devices": [device.as_json() for device in devices]}
                found.setdefault(driver, []).append(entry)
        return found

    def _shown_containers(self) -> list[Object]:
        return container_page(self._containers.sandboxes(), self._ctx.environment.clock.now())

    async def _acted(self, sandbox: messages.PodSandboxConfig, container: str) -> Mapping[str, str]:
        """By the pod as the API server has it: CRI does not say which containers are init containers."""
        metadata = sandbox.metadata
        pod: Object | None = None
        with suppress(StatusError, *CONNECTION_ERRORS):
            pod = await self._ctx.client.get(PODS, metadata.name, metadata.namespace)
        if pod is None:
            return {}
        spec = next((each for each in pod_spec.all_containers(pod) if each["name"] == container), None)
        return acted(pod, spec, demand_of(pod, spec)) if spec is not None else {}


def _is_mirror(pod: Object) -> bool:
    return MIRROR in (pod["metadata"].get("annotations") or {})


def _identity(socket: Path) -> tuple[str, int] | None:
    """None for a socket that is gone."""
    try:
        return socket.name, socket.stat().st_ino
    except OSError:
        return None


def _make_directories(layout: NodeLayout) -> None:
    """Directories that plugins look for next to the sockets lead to those of the kubelet. What is in them
    already, such as sockets of running drivers, goes with them.
    """
    layout.make()
    for there, name in (
        (layout.registry, "plugins_registry"),
        (layout.device_plugins, "device-plugins"),
        (layout.pod_resources, "pod-resources"),
    ):
        own = layout.kubelet / name
        own.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not there.is_symlink() and there.resolve() != own.resolve():
            _lead(there, own)


def _lead(there: Path, own: Path) -> None:
    """Puts a link in the place of a directory. A driver that starts beside may use the directory, or make it
    again, so that it is tried some times. Raises OSError."""
    for left in reversed(range(_TRIES)):
        try:
            for entry in sorted(there.iterdir()):
                entry.replace(own / entry.name)
            there.rmdir()
            there.symlink_to(own)
        except OSError as error:
            if not left or error.errno not in _IN_USE:
                raise
            there.mkdir(parents=True, exist_ok=True, mode=0o700)
        else:
            return
