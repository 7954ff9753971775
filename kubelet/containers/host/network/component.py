"""The network of a cluster as a component: keeps the namespaces' process alive, serves services and names.

It follows the API, and has one hand outside of the cluster's network: the API servers, kubelets and node
ports on the machine's loopback. If it is killed, pods stay connected, and the next one goes on; if the
namespaces' process is killed, it starts another with the same namespaces. Only if both are, networks of pods
are gone, as with a node that boots again.
"""

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import (
    ENDPOINT_SLICES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PODS,
    SERVICES,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.apimachinery.process.network_agent import (
    DNS_ADDRESS,
    NetworkAgent,
    NetworkAgentError,
    node_uid,
)
from kubeskew.kubelet.containers.host.network import keeper_process, nftables
from kubeskew.kubelet.containers.host.network.dns_server import NameServer
from kubeskew.kubelet.containers.host.network.endpoints import SERVICE_NAME
from kubeskew.kubelet.containers.host.network.health_checks import HealthChecks, checks_of
from kubeskew.kubelet.containers.host.network.policies import rules_of_pods
from kubeskew.kubelet.containers.host.network.service_ports import (
    CLUSTER,
    Listen,
    Node,
    Target,
    node_of,
    ports_to_serve,
)
from kubeskew.kubelet.containers.host.network.service_proxy import ServiceProxy

log = logging.getLogger(__name__)

_COALESCE_SECONDS = 0.02  # changes that come together are served together
_LOOK_SECONDS = 2.0  # between two looks at what the namespaces' process keeps
_SERVICE, _ADDRESS = "service", "address"


class ServiceTables:
    """Services, slices and namespaces as the API has them."""

    def __init__(self, informers: InformerFactory) -> None:
        self._services = informers.informer(SERVICES)
        self._slices = informers.informer(ENDPOINT_SLICES)
        self._namespaces = informers.informer(NAMESPACES)
        self._services.add_index(_ADDRESS, lambda one: [(one.get("spec") or {}).get("clusterIP") or ""])
        self._slices.add_index(_SERVICE, _service_of)

    def services(self) -> list[Object]:
        return self._services.list()

    def service(self, namespace: str, name: str) -> Object | None:
        return self._services.get(namespace, name)

    def slices(self, namespace: str, name: str) -> Sequence[Object]:
        return self._slices.by_index(_SERVICE, f"{namespace}/{name}")

    def has_namespace(self, name: str) -> bool:
        return self._namespaces.get("", name) is not None

    def of_address(self, address: str) -> Sequence[Object]:
        return self._services.by_index(_ADDRESS, address)


def _service_of(part: Object) -> list[str]:
    metadata = part["metadata"]
    name = (metadata.get("labels") or {}).get(SERVICE_NAME)
    return [f"{metadata['namespace']}/{name}"] if name else []


class NetworkComponent:
    def __init__(self, ctx: ComponentContext, path: Path, outside: Mapping[str, tuple[str, int]]) -> None:
        """`path` is the Unix socket of the namespaces' process; `outside` as of `ports_to_serve`."""
        self._ctx = ctx
        self._path = path
        self._outside = outside
        self._agent = NetworkAgent(path)
        self._kept: keeper_process.Kept | None = None
        self._keeping = threading.Lock()
        environment = ctx.environment
        self._informers = InformerFactory(ctx.client, environment.clock, environment.entropy, trimmed=True)
        self._tables = ServiceTables(self._informers)
        self._nodes = self._informers.informer(NODES)
        self._pods = self._informers.informer(PODS)
        self._pods.add_index(_ADDRESS, lambda pod: [(pod.get("status") or {}).get("podIP") or ""])
        self._proxy = ServiceProxy(self._agent, self._node_of, environment.clock, environment.entropy)
        self._checks = HealthChecks()
        self._names = NameServer(self._tables)
        self._changed = asyncio.Event()
        self._is_serving = False
        self._namespaces = self._informers.informer(NAMESPACES)
        self._policies = self._informers.informer(NETWORK_POLICIES)
        self._rules: str | None = None  # that the kernel has; None: there is no nft
        self._served: Mapping[Listen, Target] = {}  # by these rules
        for ref in (SERVICES, ENDPOINT_SLICES, NODES, PODS, NAMESPACES, NETWORK_POLICIES):
            self._informers.informer(ref).add_handler(self._change, self._change, self._change)

    def _change(self, *_objects: Object) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Raises KeeperError if this machine refuses namespaces."""
        self._ctx.health.add_check("network", lambda: self._is_serving or "not serving yet")
        keeper_process.ensure(self._agent)
        self._keep()
        try:
            working = asyncio.create_task(self._work(), name="services")
            watching = asyncio.create_task(self._watch(), name="namespaces")
            stopping = asyncio.create_task(self._ctx.stop.wait())
            tasks = (working, watching, stopping)
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await self._informers.stop()
            await self._proxy.close()
            await self._checks.close()
            await self._names.stop()
            with self._keeping:
                if self._kept is not None:
                    self._kept.close()
            self._agent.close()

    async def _work(self) -> None:
        await self._find_nftables()
        await self._names.start(self._agent)
        self._informers.start()
        await self._informers.synced()
        clock = self._ctx.environment.clock
        while True:
            self._changed.clear()
            nodes = [found for node in self._nodes.list() if (found := node_of(node)) is not None]
            if not await asyncio.to_thread(self._join_nodes, nodes):
                self._changed.set()
            wanted = ports_to_serve(
                self._tables.services(),
                self._tables,
                self._pods.list(),
                nodes,
                self._outside,
                frozenset({DNS_ADDRESS}),
            )
            left = await self._left_by_kernel(wanted, nodes)
            checks = await self._checks.sync(checks_of(self._tables.services(), self._tables, nodes))
            await self._proxy.sync({**checks, **left})
            self._is_serving = True
            await self._changed.wait()
            await clock.sleep(_COALESCE_SECONDS)

    async def _find_nftables(self) -> None:
        """Rules of a component that ended hold until this one has its own."""
        try:
            await asyncio.to_thread(self._agent.load_rules, nftables.PROBE)
        except NetworkAgentError as error:
            log.info("services are served in user space, and network policies are not enforced: %s", error)
            self._rules = None
        else:
            self._rules = ""

    async def _left_by_kernel(
        self, wanted: Mapping[Listen, Target], nodes: Sequence[Node]
    ) -> dict[Listen, Target]:
        """Gives the kernel the ports and policies that it can have; the others are for the proxy. If it
        refuses them, it keeps those that it has.
        """
        if self._rules is None:
            return {**wanted}
        served = nftables.by_kernel(wanted, nftables.nodes_by_place(nodes))
        policies = rules_of_pods(self._policies.list(), self._pods.list(), self._namespaces.list())
        rules = nftables.script(served, policies)
        if rules != self._rules:
            try:
                await asyncio.to_thread(self._agent.load_rules, rules)
            except NetworkAgentError as error:
                log.warning("the kernel does not take the rules of services and policies: %s", error)
            else:
                self._rules, self._served = rules, served
        # a node's own processes do not pass the cluster's namespace on their way to its ports
        return {
            one: found for one, found in wanted.items() if one.place != CLUSTER or one not in self._served
        }

    def _join_nodes(self, nodes: Sequence[Node]) -> bool:
        """Each node has a namespace for what is in its host's network. False if one could not be joined."""
        try:
            there = self._agent.pods()
            for node in nodes:
                if node_uid(node.name) not in there:
                    self._agent.add_node(node.name, node.address).close()
            names = {node_uid(node.name) for node in nodes}
            for uid in sorted(there):
                if uid.startswith(node_uid("")) and uid not in names:
                    self._agent.remove_pod(uid)
        except NetworkAgentError as error:
            log.warning("cannot join a node: %s", error)
            return False
        return True

    def _node_of(self, address: str) -> str:
        for pod in self._pods.by_index(_ADDRESS, address):
            return str((pod.get("spec") or {}).get("nodeName") or "")
        for node in self._nodes.list():
            found = node_of(node)
            if found is not None and found.address == address:
                return found.name
        return ""

    def _keep(self) -> None:
        with self._keeping:
            self._kept = keeper_process.kept_by(self._agent, self._kept)

    def _start_keeper(self) -> None:
        with self._keeping:
            keeper_process.start(self._path, kept=self._kept)

    async def _watch(self) -> None:
        """Has descriptors of all namespaces, and starts another process if the one that keeps them is gone.
        Raises KeeperError.
        """
        while True:
            await self._ctx.environment.clock.sleep(_LOOK_SECONDS)
            try:
                await asyncio.to_thread(self._keep)
            except NetworkAgentError as error:
                log.warning("%s: starting it again", error)
                await asyncio.to_thread(self._start_keeper)
                self._changed.set()
