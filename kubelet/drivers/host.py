"""A driver on all its nodes, in one process: sockets and claims per node, one publisher for all slices.

The release of the API server and the newest version of resource slices that it serves are looked up as
k8s.io/dynamic-resource-allocation/client does, which tries v1, v1beta2 and v1beta1 in turn; drivers of 1.31
spoke v1alpha3.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.claims import CallLog, ClaimRef, PreparedClaims
from kubeskew.kubelet.drivers.generation import DeviceHealth, NodeParts
from kubeskew.kubelet.drivers.generations import generations_of
from kubeskew.kubelet.drivers.kubelet_plugin import DriverEndpoints
from kubeskew.kubelet.drivers.pools import Pool
from kubeskew.kubelet.drivers.profiles import ProfileError
from kubeskew.kubelet.drivers.reload import follow
from kubeskew.kubelet.drivers.resources import MadePartitions, health_of, pools_of
from kubeskew.kubelet.drivers.resourceslice_controller import SlicePublisher
from kubeskew.kubelet.drivers.settings import DriverFile, DriverNode
from kubeskew.kubelet.files import UNJOURNALLED
from kubeskew.kubelet.journal import JournalledFiles

GROUP = "resource.k8s.io"
_NEWEST_FIRST = ("v1", "v1beta2", "v1beta1", "v1alpha3")
log = logging.getLogger(__name__)

_SERVER_RETRY_SECONDS = 0.1
_SERVED_SECONDS = 0.5  # seconds between checks that the server still serves the version in use


async def server_version(client: APIClient) -> Version:
    """A preview is known by the server's `gitVersion`."""
    found = await client.request("GET", "/version")
    preview = found.get("gitVersion", "").partition("+")[2]
    if preview.startswith("kep"):
        return Version.parse(found["gitVersion"])
    return Version.parse(f"{found['major']}.{found['minor'].rstrip('+')}")


async def served(client: APIClient, plural: str, kind: str, *, namespaced: bool) -> Ref | None:
    """Finds the newest served version of the resource; None if drivers know none of those served."""
    try:
        group = await client.request("GET", f"/apis/{GROUP}")
    except StatusError as error:
        if error.code == 404:
            return None
        raise
    offered = {version["version"] for version in group["versions"]}
    for version in [version for version in _NEWEST_FIRST if version in offered]:
        listed = await client.request("GET", f"/apis/{GROUP}/{version}")
        if any(resource["name"] == plural for resource in listed["resources"]):
            return Ref(GROUP, version, plural, namespaced, kind)
    return None


class NodeDriver:
    def __init__(self, driver: str, node: DriverNode, ctx: ComponentContext, host: "DriverHost") -> None:
        self.node = node
        self._host = host
        data = node.data or node.directories.plugins / driver
        files = (
            JournalledFiles(node.directory, ctx.client.newest_revision) if node.directory else UNJOURNALLED
        )
        self.claims = PreparedClaims(driver, data / "prepared.json", node.directories.cdi, files)
        self._made = MadePartitions(data / "partitions.json", files)
        self._driver, library, clock = driver, ctx.options.emulated_version, ctx.environment.clock
        parts = NodeParts(
            *(driver, library, clock, ctx.client, self.claims, CallLog(data, clock, files)),
            *(host.get_claim, self._health, lambda: self.node),
        )
        self.services = generations_of(library).services(parts)
        self.instances: dict[str, DriverEndpoints] = {}  # instances with sockets

    async def apply(self, node: DriverNode) -> None:
        """Sets switches and devices; raises OSError if a socket cannot be made."""
        self.node = node
        self.services.turn(node.switches)
        wanted = () if node.switches.vanish else node.switches.instances
        for name in wanted:
            if name not in self.instances:
                self.instances[name] = self._instance(name)
                await self.instances[name].start()
        for name in [name for name in self.instances if name not in wanted]:
            await self.instances.pop(name).stop()

    def _instance(self, name: str) -> DriverEndpoints:
        node = self.node
        return DriverEndpoints(
            self._driver,
            node.name,
            node.directories,
            self.services,
            lambda: self._host.registered(node.name),
            node.apis,
            name,
        )

    async def stop(self) -> None:
        for endpoints in self.instances.values():
            await endpoints.stop()

    def existing(self) -> Iterator[tuple[str, str]]:
        """Yields pool and name of each device that is prepared, or kept while no partitions are made."""
        for claim in self.claims.all():
            for device in claim["devices"]:
                yield device["pool"], device["device"]
        if self.node.switches.pre_partitioned:
            yield from self._made.all()

    def offered(self, pools: Mapping[str, Pool]) -> None:
        """Keeps the devices that the node offers while its driver makes no partitions, so that it goes on
        offering them."""
        fixed = pools if self.node.switches.pre_partitioned else {}
        self._made.keep(
            {
                name: [device["name"] for piece in pool.slices for device in piece.devices]
                for name, pool in fixed.items()
                if pool.node_name in {"", self.node.name}
            }
        )

    def state(self) -> dict[str, Any]:
        """`{shown, registered, refused, prepared, digest}` goes into the page /driver; registered is true if
        all instances are."""
        shown = list(self.instances.values())
        return {
            "registered": bool(shown) and all(instance.registered for instance in shown),
            "refused": next((instance.refused for instance in shown if instance.refused), ""),
            "shown": bool(shown),
            "prepared": self.claims.all(),
            "digest": self.services.reported_digest(),
        }

    def _health(self) -> list[DeviceHealth]:
        return [*health_of(self.node, self._host.pools)]


class DriverHost:
    """The driver's process. `read` returns the nodes; it is called again on SIGHUP."""

    def __init__(
        self, ctx: ComponentContext, driver: str, read: Callable[[], DriverFile], *, sync_delay: float
    ) -> None:
        self.pools: dict[str, Pool] = {}
        self._ctx = ctx
        self._driver = driver
        self._read = read
        self._sync_delay = sync_delay
        self._nodes: dict[str, NodeDriver] = {}
        self._generations: dict[str, int] = {}
        self._server: Version | None = None  # the server's release when the driver started
        self._publisher: SlicePublisher | None = None
        self._claims: Ref | None = None
        self._waiting = False  # whether the wait for the server is logged
        self._looked = False  # whether the served version is known
        self._revision = 0
        self._reload = asyncio.Event()

    async def run(self) -> None:
        """Runs until the process has to stop; slices, claims and CDI files stay."""
        health = self._ctx.health
        health.add_check("pools", self._unready)
        health.add_page("/driver", self.state)
        self._ctx.reloads.append(self._reload.set)
        await self.apply(self._read())
        publishing = asyncio.create_task(self._publish(), name="publishing")
        following = follow(self._reload, lambda: self.apply(self._read()))
        reloading = asyncio.create_task(following, name="driver file")
        try:
            await self._ctx.stop.wait()
        finally:
            for task in (publishing, reloading):
                task.cancel()
            await asyncio.gather(publishing, reloading, return_exceptions=True)
            await asyncio.gather(*(node.stop() for node in self._nodes.values()))
            if self._publisher is not None:
                await self._publisher.stop()

    async def apply(self, file: DriverFile) -> None:
        """Serves these nodes, and no others, with these devices and switches."""
        wanted = {node.name: node for node in file.nodes}
        for name in [name for name in self._nodes if name not in wanted]:
            await self._nodes.pop(name).stop()
        for name, node in wanted.items():
            if name not in self._nodes:
                self._nodes[name] = NodeDriver(self._driver, node, self._ctx, self)
            else:
                self._renew(self._nodes[name].node, node)
            await self._nodes[name].apply(node)
        self._offer()
        self._revision = file.revision

    def state(self) -> dict[str, Any]:
        """The page /driver shows `{driver, revision, api, pools, nodes: {name: state of a node}}`."""
        publisher = self._publisher
        return {
            "driver": self._driver,
            "revision": self._revision,
            "api": publisher.ref.api_version if publisher is not None else None,
            "pools": publisher.state() if publisher is not None else {},
            "nodes": {name: node.state() for name, node in self._nodes.items()},
        }

    def registered(self, node: str) -> None:
        """Called when a kubelet has registered the driver, so that its node exists."""
        if self._publisher is not None:
            self._publisher.retry(node)

    async def get_claim(self, ref: ClaimRef) -> Object:
        """Reads the claim in any served version. Raises StatusError."""
        try:
            return await self._ctx.client.get(await self._claims_ref(), ref.name, ref.namespace)
        except StatusError as error:
            if error.code != 404:
                raise
        self._claims = None  # deleted, or another version is served now
        return await self._ctx.client.get(await self._claims_ref(), ref.name, ref.namespace)

    async def _claims_ref(self) -> Ref:
        if self._claims is None:
            found = await served(self._ctx.client, "resourceclaims", "ResourceClaim", namespaced=True)
            self._claims = found or Ref(GROUP, "v1", "resourceclaims", True, "ResourceClaim")
        return self._claims

    # -- pools

    def _renew(self, old: DriverNode, new: DriverNode) -> None:
        """Begins a new generation if the driver loses devices, or forgets its old slices."""
        before, now = old.switches, new.switches
        began_stale = now.stale_generation and not before.stale_generation
        if self._publisher is not None and (before.devices != now.devices or began_stale):
            for name, pool in self._publisher.state().items():
                if self.pools[name].node_name in {"", new.name}:
                    self._generations[name] = pool["generation"] + 1

    def _offer(self) -> None:
        """Hands the publisher the pools of the nodes where the driver is not hidden."""
        if self._server is None:
            return
        nodes = [node.node for node in self._nodes.values()]
        existing = [device for node in self._nodes.values() for device in node.existing()]
        try:
            self.pools = pools_of(self._driver, nodes, self._server, self._generations, existing)
        except (ProfileError, KeyError, TypeError) as error:
            log.error("cannot make the devices: %s", error)
            return
        gone = {node.name for node in nodes if node.switches.vanish}
        if self._publisher is not None:
            self._publisher.update({n: pool for n, pool in self.pools.items() if pool.node_name not in gone})
        for node in self._nodes.values():
            node.offered(self.pools)
            node.services.report()

    async def _publish(self) -> None:
        """Finds out which version the server serves, and publishes in it; again when that changes."""
        clock = self._ctx.environment.clock
        while True:
            try:
                await self._look()
            except (StatusError, *CONNECTION_ERRORS) as error:
                if not self._waiting:
                    log.info("waiting for the API server: %s", error)
                self._waiting = True
                await clock.sleep(_SERVER_RETRY_SECONDS)
                continue
            while self._publisher is not None and not self._publisher.stored.informer.is_unserved:
                await clock.sleep(_SERVED_SECONDS)
            await clock.sleep(_SERVED_SECONDS)

    async def _look(self) -> None:
        client = self._ctx.client
        if self._server is None:
            self._server = await server_version(client)
        ref = await served(client, "resourceslices", "ResourceSlice", namespaced=False)
        publisher = self._publisher
        if publisher is not None and publisher.ref != ref:
            self._publisher, self._looked = None, False
            await publisher.stop()
        if self._publisher is None and ref is not None:
            log.info("publishing in %s to an API server of %s", ref.api_version, self._server)
            self._publisher = SlicePublisher(
                client,
                self._ctx.environment.clock,
                ref,
                self._driver,
                self._ctx.environment.gates,
                sync_delay=self._sync_delay,
            )
            self._offer()
            self._publisher.start()
        if ref is None and not self._looked:
            log.warning("the API server serves no resource slices that this driver knows")
        self._looked, self._waiting = True, False

    # --

    def _unready(self) -> bool | str:
        if not self._looked:
            return "the API server has not answered"
        pending = self._publisher.pending() if self._publisher is not None else []
        return f"pools not published: {', '.join(pending)}" if pending else True
