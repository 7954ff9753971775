"""One node's kubelet: registration, heartbeats, pods and devices, and whether the node is ready.

The sockets that it serves are for device plugins, and for agents that monitor the devices of pods.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.faults.injector import Injector
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.apimachinery.process.network_agent import DNS_ADDRESS
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.kubelet.allocation import PodAllocations
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError
from kubeskew.kubelet.containers.container_page import container_page
from kubeskew.kubelet.containers.environment import PodContents
from kubeskew.kubelet.containers.runtime_faults import (
    FaultyImages,
    FaultyRuntime,
    RuntimeFaults,
    RuntimeHealth,
)
from kubeskew.kubelet.containers.runtime_service import DNSConfig, ImageService, RuntimeService
from kubeskew.kubelet.deviceplugins import pod_devices
from kubeskew.kubelet.deviceplugins.manager import DevicePluginManager, ManagerDependencies
from kubeskew.kubelet.deviceplugins.plugin_server import DevicePluginServer
from kubeskew.kubelet.dra.node import NodeDRA
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.journal import JournalledFiles
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.node.config import NodeConfig, NodeLayout
from kubeskew.kubelet.node.object import event_subject, host_ip
from kubeskew.kubelet.node.status import CachedNode, NodeLease, NodeStatusReporter, StartLimiter
from kubeskew.kubelet.plugins.manager import PluginManager
from kubeskew.kubelet.podresources import FindClaim, Lister, PodResourcesServer, PodsProvider
from kubeskew.kubelet.pods.container_configs import CLUSTER_DOMAIN
from kubeskew.kubelet.pods.handlers import Asker
from kubeskew.kubelet.pods.images import ImageManager
from kubeskew.kubelet.pods.pod_manager import PodManager, StaticPods
from kubeskew.kubelet.pods.services import CrashBackoff, NodeServices
from kubeskew.kubelet.pods.sync_periods import SyncPeriods
from kubeskew.kubelet.probe_counts import ProbeCounts
from kubeskew.kubelet.protocols.registration import DEVICE_PLUGIN
from kubeskew.kubelet.resourcemanagers.managers import ResourceManagers
from kubeskew.kubelet.restoration import resource_managers
from kubeskew.kubelet.runtimes import runtime_of
from kubeskew.kubelet.server.access import Access, AccessOptions
from kubeskew.kubelet.server.server import Listener, Routes
from kubeskew.kubelet.server.stats import NodeView
from kubeskew.kubelet.status.pod_status import owned_fields
from kubeskew.kubelet.status.status_manager import StatusWriter
from kubeskew.kubelet.volumes.dns import DNSSettings, parse_resolv_conf
from kubeskew.kubelet.volumes.node_volumes import NodeVolumes
from kubeskew.kubelet.volumes.pod_volumes import (
    CheckedVolumes,
    DirectoryVolumes,
    ImageDirectories,
    PodVolumes,
)

log = logging.getLogger(__name__)


class NodeSockets:
    """The sockets of one node. `device_plugins` also takes the plugins of its type from the registry."""

    def __init__(
        self,
        layout: NodeLayout,
        features: KubeletFeatures,
        clock: Clock,
        metrics: KubeletMetrics,
        plugins: DevicePluginManager,
        pods: PodsProvider,
        find_claim: FindClaim,
        managers: ResourceManagers,
    ) -> None:
        apart = features.device_plugins_apart
        self.device_plugins = DevicePluginServer(layout.device_plugins, plugins, metrics, keeps_newer=apart)
        lister = Lister(features, plugins, find_claim, managers)
        self._pod_resources = PodResourcesServer(layout.pod_resources, pods, lister, features, clock, metrics)

    async def start(self) -> None:
        """Starts to serve; if a socket cannot be made, the node only lacks its service."""
        for server in (self.device_plugins, self._pod_resources):
            try:
                await server.start()
            except OSError as error:
                log.error("%s", error)

    async def stop(self) -> None:
        await asyncio.gather(self.device_plugins.stop(), self._pod_resources.stop())


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of a node's server: `health` is the process's; without a TLS context it is plain HTTP."""

    health: Health
    context: ssl.SSLContext | None
    access: AccessOptions


# Reported when a node gets its conditions (nodestatus/setters.go).
_FIRST_CONDITIONS = ("NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID")


class NodeAgent:
    """The kubelet of one node. `start`, then `stop` (in order) or `kill` (as if the process died)."""

    def __init__(
        self,
        config: NodeConfig,
        root: Path,
        environment: Environment,
        client: APIClient,
        metrics: KubeletMetrics,
        *,
        port: int = 0,
        announce: Callable[[str, str], Awaitable[None]] | None = None,
        server: ServerSettings | None = None,
        sockets: Path | None = None,
        injector: Injector | None = None,
    ) -> None:
        """`announce` is called with `started` once the API server knows the node, or with `failed` and why;
        without `server` the node has none.

        `sockets` is a short directory for the nodes' sockets; without it they lie below `root`.
        """
        self.config = config
        self.failure = ""  # why the kubelet does not run
        self._exit_code = 0  # of upstream's kubelet then
        self._announce = announce
        clock = self._clock = environment.clock
        self._periods = environment.periods
        self._client = client
        self._features = KubeletFeatures.of(environment.gates)
        gates = dict(environment.gates.overrides)
        self._settings = {**config.settings, **({"featureGates": gates} if gates else {})}
        self._layout = NodeLayout.under(root, config.name, sockets)
        self._files = files = JournalledFiles(self._layout.node, client.newest_revision)
        runtime, images = runtime_of(
            *(config, self._layout, clock, environment.entropy, files),
            follows_events=self._features.follows_container_events,
        )
        faults = RuntimeFaults(injector) if injector is not None else None
        self._runtime: RuntimeService = runtime if faults is None else FaultyRuntime(runtime, faults)
        pulled: ImageService = images if faults is None else FaultyImages(images, faults)
        self._runtime_health = RuntimeHealth(faults, clock)
        self._probes = ProbeCounts()
        self._recorder = EventRecorder(client, clock, "kubelet", config.name)
        self._plugins = self._device_plugins(metrics)
        self._reporter = NodeStatusReporter(
            client,
            clock,
            self._features,
            config,
            self._recorder,
            port=port,
            plugins=self._plugins,
            not_ready=lambda: self._runtime_health.look() or self._runtime.problem(),
            runtime_version=lambda: self._runtime.version,
            runtime_status=lambda: self._runtime.status,
        )
        self._dra = self._node_dra(environment, metrics, injector)
        self._statuses = StatusWriter(
            client, clock, owned_fields(self._features), self._dra.devices.uses_claims
        )
        self._managers = self._resource_managers()
        self._allocations = PodAllocations(self._layout.kubelet, self._features, files)
        self._services = NodeServices(
            node_name=config.name,
            host_ip=host_ip(config.name),
            clock=clock,
            features=self._features,
            runtime=self._runtime,
            images=ImageManager(pulled, clock, self._features.events),
            asker=Asker(self._runtime, clock, self._features),
            probes=self._probes,
            volumes=self._pod_volumes(environment, images),
            statuses=self._statuses,
            recorder=self._recorder,
            backoff=CrashBackoff(clock, *self._features.backoff_seconds),
            periods=SyncPeriods(environment.entropy),
            devices=self._dra.devices,
            plugins=self._plugins,
            managers=self._managers,
            allocations=self._allocations,
            cdi=self._layout.cdi,
            metrics=metrics,
            contents=PodContents(client, host_ip(config.name), self._features.environment),
            logs=self._layout.logs,
            node_memory=int(Quantity.parse(config.capacity.get("memory", "0")).decimal()),
            dns=self._dns_settings(),
        )
        self._cached_node = self._node_cache(environment)
        self._pods = self._pod_manager(environment)
        self._sockets = NodeSockets(
            *(self._layout, self._features, clock, metrics, self._plugins, self._pods),
            *(self._dra.claim, self._managers),
        )
        self._port = port
        self._server = server
        self._listener: Listener | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ready_since: datetime | None = None
        self._started_at = clock.now()

    def _pod_volumes(self, environment: Environment, images: ImageService) -> PodVolumes:
        volumes = NodeVolumes.of(
            self.config.name,
            self._layout.root,
            self._layout.elsewhere,
            lambda: self._reporter.node["metadata"].get("labels") or {},
            self._client,
            environment.clock,
            environment.entropy,
            self._features.volumes,
            self._recorder,
        )
        if not self._runtime.runs_programs:
            return CheckedVolumes(volumes.sources)
        volumes.root.make()
        directory = images.image_directory if isinstance(images, ImageDirectories) else lambda _name: None
        return DirectoryVolumes(volumes, self._recorder, directory)

    def _dns_settings(self) -> DNSSettings:
        """The machine's own settings matter to programs only."""
        host = DNSConfig()
        if self._runtime.runs_programs:
            with contextlib.suppress(OSError):
                host = parse_resolv_conf(Path("/etc/resolv.conf").read_text())
        return DNSSettings((DNS_ADDRESS,), CLUSTER_DOMAIN, host)

    def _node_dra(
        self, environment: Environment, metrics: KubeletMetrics, injector: Injector | None
    ) -> NodeDRA:
        subject = event_subject(self.config.name)
        return NodeDRA(
            self.config,
            self._layout,
            environment,
            self._features,
            self._client,
            metrics,
            lambda uids: self._pods.wake(uids),
            lambda reason, text: self._recorder.event(subject, "Warning", reason, text),
            self._files,
            injector,
        )

    def _pod_manager(self, environment: Environment) -> PodManager:
        selector = f"spec.nodeName={self.config.name}"
        informer = Informer(
            *(self._client, PODS, environment.clock, "", selector),
            entropy=environment.entropy,
            periods=environment.periods,
        )
        self.static_pods = StaticPods(
            *(self._client, environment.clock, self.config.name, informer), self.config.static_pods
        )
        return PodManager(informer, self._services, lambda: self._cached_node.node, self._refresh_node)

    def _node_cache(self, environment: Environment) -> CachedNode:
        watched = self._features.admission.affinity_by_cached_node
        clock, entropy = environment.clock, environment.entropy
        return CachedNode.of(
            self.config.name, lambda: self._reporter.node, self._client, clock, entropy, watched=watched
        )

    async def _refresh_node(self) -> None:
        await self._reporter.refresh()

    def _device_plugins(self, metrics: KubeletMetrics) -> DevicePluginManager:
        surroundings = ManagerDependencies(
            active_pods=lambda: self._pods.active_uids(),
            capacity_changed=lambda: self._reporter.wake(),
            health_changed=lambda uids: self._pods.wake(uids),
        )
        directory = self._layout.kubelet / pod_devices.DIRECTORY
        return DevicePluginManager(directory, self._clock, self._features, metrics, surroundings, self._files)

    def _resource_managers(self) -> ResourceManagers:
        managers = resource_managers(self.config, self._layout.kubelet, self._features, self._files)
        return ResourceManagers(managers, self._clock, lambda: self._pods.active_containers())

    # -- life

    def start(self, starts: StartLimiter) -> None:
        """Begins in the background; waits for this node's turn before it uses the API server."""
        self._tasks.append(asyncio.create_task(self._run(starts), name=f"kubelet {self.config.name}"))

    async def stop(self) -> None:
        """Ends in order: containers, devices and the Node object stay as they are."""
        await self._cancel()
        await self._pods.stop()
        await self._cached_node.stop()
        await self._dra.stop()
        await self._sockets.stop()
        await self._statuses.close()
        await self._recorder.close()

    async def kill(self) -> None:
        """Ends at once, as under SIGKILL, without a last write."""
        await self._cancel()
        await self._statuses.close()
        await self._pods.stop()
        await self._cached_node.stop()
        await self._dra.stop()
        await self._sockets.stop()
        await self._recorder.close(timeout=0)

    async def _cancel(self) -> None:
        self._runtime_health.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._listener is not None:
            await self._listener.stop()

    async def _run(self, starts: StartLimiter) -> None:
        try:
            await self._bring_up(starts)
        except Exception as error:
            # Upstream's kubelet exits; here the process goes on for its other nodes.
            self._exit_code = error.exit_code if isinstance(error, CheckpointError) else 1
            log.exception("kubelet of node %s failed (exit code %d)", self.config.name, self._exit_code)
            if self._announce is not None:  # the error is in the log by now
                await self._announce("failed", str(error))
            self.failure = str(error)

    async def _bring_up(self, starts: StartLimiter) -> None:
        self._layout.make()
        self._files.reconcile()
        await self._runtime.load()
        self._spawn("containers", self._runtime.run())
        self._dra.restore()
        self._allocations.load()
        self._managers.start()
        self._plugins.restore(self._running())
        await self._listen()
        is_new = await self._reporter.register(starts)
        async with starts.slot():
            await self._take_up_work(is_new=is_new)

    async def _take_up_work(self, *, is_new: bool) -> None:
        if self._announce is not None:
            await self._announce("started", "")
        node = self._reporter.node
        lease = NodeLease(self._client, self._clock, self.config.name, node["metadata"]["uid"])
        self._spawn("lease", lease.run())
        self._report_start(is_new=is_new)
        self._dra.start()
        await self._sockets.start()
        handlers = {**self._dra.handlers, DEVICE_PLUGIN: self._sockets.device_plugins}
        plugins = PluginManager(self._layout.registry, handlers, self._clock, self._periods)
        self._spawn("plugins", plugins.run())
        self._cached_node.start()
        await self._pods.start()
        self._spawn("static pods", self.static_pods.run(node["metadata"]["uid"]))
        self._spawn("resource managers", self._managers.run())
        self._spawn("status", self._reporter.run())
        self._spawn("pod statuses", self._statuses.run())
        self._spawn("claims", self._dra.reconcile(self._pods.active_uids))

    def _report_start(self, *, is_new: bool) -> None:
        subject = event_subject(self.config.name)
        self._recorder.event(subject, "Normal", "Starting", "Starting kubelet.")
        for reason in _FIRST_CONDITIONS if is_new else ():
            message = f"Node {self.config.name} status is now: {reason}"
            self._recorder.event(subject, "Normal", reason, message)
        message = "Updated Node Allocatable limit across pods"
        self._recorder.event(subject, "Normal", "NodeAllocatableEnforced", message)

    async def _listen(self) -> None:
        """Serves logs, exec and the like. If the port is taken, the node goes without them."""
        if self._server is None:
            return
        view = NodeView(
            self.config.name,
            self._clock,
            self._runtime,
            self._pods.pods,
            self._features,
            self._started_at,
            self.config.capacity,
            self._probes,
            settings=self._settings,
        )
        access = None
        if self._server.context is not None:
            access = Access(
                self._client,
                self._clock,
                self.config.name,
                self._server.access,
                fine_grained=self._features.fine_grained_authz,
                plural=self._features.refuses_by_subresources,
            )
        self._listener = Listener(Routes(view, self._server.health), self._server.context, access)
        try:
            await self._listener.start(host_ip(self.config.name), self._port)
        except OSError as error:
            log.error("node %s has no server: %s", self.config.name, error)
            return
        self._reporter.port = self._listener.port

    def _spawn(self, name: str, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work, name=f"{name} of {self.config.name}"))

    # -- state

    @property
    def ready(self) -> bool:
        """The node counts as ready once this process has posted it as ready and the slices of earlier drivers
        are wiped."""
        return not self.failure and self._reporter.posted_ready and self._dra.ready

    def state(self) -> Object:
        """`{ready, since}` is for the supervisor; `error` and `exitCode` join it if the kubelet does not
        run."""
        if not self.ready:
            self._ready_since = None
        elif self._ready_since is None:
            self._ready_since = self._clock.now()
        since = timestamp(self._ready_since) if self._ready_since is not None else None
        failed = {"error": self.failure, "exitCode": self._exit_code} if self.failure else {}
        return {"ready": self.ready, "since": since} | failed

    def _running(self) -> frozenset[tuple[str, str]]:
        """(pod UID, container) of all running containers."""
        now = self._clock.now()
        return frozenset(
            (sandbox.pod_uid, container.name)
            for sandbox in self._runtime.sandboxes()
            for container in sandbox.running(now)
        )

    def running(self) -> tuple[int, int]:
        """Counts (pods, containers) that run now, in ready sandboxes only."""
        now = self._clock.now()
        counts = [len(sandbox.running(now)) for sandbox in self._runtime.sandboxes() if sandbox.ready]
        return len(counts), sum(counts)

    def prepared(self) -> dict[str, list[Object]]:
        return self._dra.prepared()

    def plugins(self) -> list[str] | None:
        """None means that the kubelet takes no plugins; else drivers are listed whose plugins are
        registered."""
        return self._dra.registered()

    def resources(self) -> dict[str, Object]:
        return self._dra.resources()

    def containers(self) -> list[Object]:
        return container_page(self._runtime.sandboxes(), self._clock.now())
