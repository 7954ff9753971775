"""Runs many nodes in one process: starts and stops their agents as the nodes file says, again on SIGHUP."""

import asyncio
import functools
import logging
from collections.abc import Mapping
from pathlib import Path

from kubeskew.apimachinery.client.faults import ComponentFaults
from kubeskew.apimachinery.client.rest import APIClient, user_agent
from kubeskew.apimachinery.golang.known_fields import decoder
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.kubelet.agent import NodeAgent, ServerSettings
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.node.config import NodeConfig, NodesFileError, load_nodes
from kubeskew.kubelet.node.status import StartLimiter
from kubeskew.kubelet.server.access import AccessOptions
from kubeskew.kubelet.server.server import Credentials

log = logging.getLogger(__name__)


_METRICS_SECONDS = 5.0
# Each costs a TLS connection. One would do, if an admission webhook did not hold up a write.
_REQUESTS_PER_NODE = 2
# Nodes that come up at a time. More would only wait for each other: with 500 at once, on a busy machine, most
# ran into the time limit of a connection, and began again.
_ARRIVING_MAX, _ARRIVING_SECONDS = 16, 20.0


class Host:
    def __init__(
        self,
        ctx: ComponentContext,
        nodes_file: Path,
        root: Path,
        credentials: Credentials | None = None,
        sockets: Path | None = None,
        access: AccessOptions | None = None,
        endpoint: str = "",
    ) -> None:
        """Without `credentials` the nodes serve no logs, exec and the like; `sockets` as for NodeAgent,
        `endpoint` as for `load_nodes`."""
        self._ctx = ctx
        self._nodes_file = nodes_file
        self._endpoint = endpoint
        self._root = root
        self._sockets = sockets
        self._metrics = KubeletMetrics(ctx.health.registry)
        self._agents: dict[str, NodeAgent] = {}
        self._clients: dict[str, APIClient] = {}  # clients of nodes with credentials of their own
        self._faults: dict[str, ComponentFaults] = {}
        self._crashed: dict[str, NodeConfig] = {}  # nodes that a fault has ended, until their entry changes
        self._revived: set[str] = set()  # of these, those that are to start again
        self._deaths: list[asyncio.Task[None]] = []
        self._starts = StartLimiter(_ARRIVING_MAX, _ARRIVING_SECONDS)
        self._reload = asyncio.Event()
        self._server: ServerSettings | None = None
        if credentials is not None:
            allowed = access or AccessOptions()
            self._server = ServerSettings(ctx.health, credentials.context(), allowed)

    async def run(self) -> None:
        """Runs until the process has to stop. Raises NodesFileError if there are no nodes at the start."""
        ctx = self._ctx
        ctx.health.add_check("nodes", self._unready)
        ctx.health.add_page("/nodes", self.states)
        ctx.health.add_page("/containers", self.containers)
        ctx.health.add_page("/prepared", self.prepared)
        ctx.health.add_page("/plugins", self.plugins)
        ctx.health.add_page("/resources", self.resources)
        ctx.reloads.append(self._reload.set)
        await self.apply(load_nodes(self._nodes_file, self._endpoint))
        counting = asyncio.create_task(self._count(), name="kubelet metrics")
        try:
            while await self._reload_requested():
                await self._read_again()
        finally:
            counting.cancel()
            await asyncio.gather(*(self._leave(agent, set()) for agent in [*self._agents.values()]))

    async def apply(self, nodes: list[NodeConfig]) -> None:
        """Runs agents for these nodes, and no others; restarts a node whose entry changed."""
        wanted = {node.name: node for node in nodes if not node.killed}
        killed = {node.name for node in nodes if node.killed}
        while self._deaths:
            await self._deaths.pop()
        revived, self._revived = self._revived, set()
        for name in [n for n, node in self._crashed.items() if n in revived or wanted.get(n) != node]:
            del self._crashed[name]
            await self._forget(name)
        leaving = [agent for name, agent in self._agents.items() if wanted.get(name) != agent.config]
        await asyncio.gather(*(self._leave(agent, killed) for agent in leaving))
        for name, agent in self._agents.items():
            agent.static_pods.replace(wanted[name].static_pods)
        for node in [node for name, node in wanted.items() if name not in {*self._agents, *self._crashed}]:
            self._arrive(node)

    def states(self) -> Mapping[str, Object]:
        """`{ready, since}` stands under each node, with `crashed` where a fault has ended it."""
        crashed: dict[str, Object] = {name: {"ready": False, "crashed": True} for name in self._crashed}
        return crashed | {name: agent.state() for name, agent in self._agents.items()}

    def containers(self) -> Mapping[str, list[Object]]:
        return {name: agent.containers() for name, agent in self._agents.items()}

    def prepared(self) -> Mapping[str, Mapping[str, list[Object]]]:
        return {name: agent.prepared() for name, agent in self._agents.items()}

    def plugins(self) -> Mapping[str, list[str] | None]:
        """None stands for a kubelet that takes no plugins."""
        return {name: agent.plugins() for name, agent in self._agents.items()}

    def resources(self) -> Mapping[str, Mapping[str, Object]]:
        return {name: agent.resources() for name, agent in self._agents.items()}

    async def _leave(self, agent: NodeAgent, killed: set[str]) -> None:
        name = agent.config.name
        if name in killed:
            await agent.kill()
        else:
            await agent.stop()
            await self._ctx.announce(f"kubelet/{name}", "stopped", self._clients.get(name))
        del self._agents[name]
        await self._forget(name)
        log.info("node %s left", name)

    async def _forget(self, name: str) -> None:
        """Closes what a node that is gone had for itself."""
        faults, client = self._faults.pop(name, None), self._clients.pop(name, None)
        if faults is not None:
            faults.close()
        if client is not None:
            await client.close()

    def _faults_of(self, node: NodeConfig, kubeconfig: Path, agent: str) -> ComponentFaults | None:
        process = self._ctx.process_faults
        if process is None:
            return None
        machine = self._ctx.options.machine
        last_words = machine.last_words(kubeconfig, agent, self._ctx.environment.timeline_dir)
        end = functools.partial(self._crash, node)
        faults = ComponentFaults(process, f"kubelet/{node.name}", self._ctx.environment, last_words, end)
        self._faults[node.name] = faults
        return faults

    def _crash(self, node: NodeConfig, fault: str) -> None:
        """Ends a node as SIGKILL does; with it the process, if it has no other."""
        machine = self._ctx.options.machine
        if len(self._agents) == 1:
            machine.kill(fault)
            return  # only in a simulation, where the process ends after this call
        self._crashed[node.name] = node
        client = self._clients.pop(node.name)  # its faults stay and answer its requests
        self._deaths.append(asyncio.create_task(self._bury(self._agents.pop(node.name), client)))
        machine.killed(fault, functools.partial(self._revive, node))

    def _revive(self, node: NodeConfig) -> None:
        """Starts a node again that a fault has ended, unless its entry has changed since."""
        if self._crashed.get(node.name) is node:
            self._revived.add(node.name)
            self._reload.set()

    async def _bury(self, agent: NodeAgent, client: APIClient) -> None:
        await agent.kill()
        await client.close()
        log.info("node %s crashed", agent.config.name)

    def _arrive(self, node: NodeConfig) -> None:
        ctx, client = self._ctx, self._ctx.client
        faults: ComponentFaults | None = None
        if node.kubeconfig is not None:
            agent_name = user_agent("kubelet", ctx.environment.version)
            faults = self._faults_of(node, node.kubeconfig, agent_name)
            client = self._clients[node.name] = APIClient.from_kubeconfig(
                node.kubeconfig,
                agent_name,
                clock=ctx.environment.clock,
                max_requests=_REQUESTS_PER_NODE,
                dial=ctx.options.machine.dial,
                wrap=faults.wrap if faults is not None else None,
                decode=decoder(ctx.environment.version),
            )
            if faults is not None:
                faults.attach(client)

        async def announce(what: str, detail: str) -> None:
            await ctx.announce(f"kubelet/{node.name}", what, client, detail)

        port = ctx.options.secure_port
        agent = NodeAgent(
            node,
            self._root,
            ctx.environment,
            client,
            self._metrics,
            port=port,
            announce=announce,
            server=self._server,
            sockets=self._sockets,
            injector=faults.injector if faults is not None else None,
        )
        self._agents[node.name] = agent
        agent.start(self._starts)
        log.info("node %s starts", node.name)

    async def _reload_requested(self) -> bool:
        """Waits for either: True is a reload, False the end."""
        stopping = asyncio.ensure_future(self._ctx.stop.wait())
        reloading = asyncio.ensure_future(self._reload.wait())
        try:
            await asyncio.wait({stopping, reloading}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            reloading.cancel()
        return not self._ctx.stop.is_set()

    async def _read_again(self) -> None:
        self._reload.clear()
        try:
            await self.apply(load_nodes(self._nodes_file, self._endpoint))
        except NodesFileError as error:
            log.error("nodes stay as they are: %s", error)

    def _unready(self) -> bool | str:
        unready = [name for name, agent in self._agents.items() if not agent.ready]
        return f"not ready: {', '.join(unready)}" if unready else True

    async def _count(self) -> None:
        while True:
            counts = [agent.running() for agent in self._agents.values()]
            self._metrics.running_pods.set(sum(pods for pods, _ in counts))
            running = self._metrics.running_containers.labels("running")
            running.set(sum(containers for _, containers in counts))
            await self._ctx.environment.clock.sleep(_METRICS_SECONDS)
