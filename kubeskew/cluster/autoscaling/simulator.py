"""Simulations of scale-up and scale-down: a scheduler's informers read a snapshot, and its plugins decide.

The snapshot is of a cluster, of files, or of both, and is read-only. Results become JSON here, too.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from kubeskew.apimachinery.client.refs import (
    DAEMON_SETS,
    JOBS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Ref,
)
from kubeskew.apimachinery.client.rest import APIClient, Dial, dial, user_agent
from kubeskew.apimachinery.client.transport import Request, Response
from kubeskew.apimachinery.clock import Clock, Entropy, SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object, object_key
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.autoscaling.manifests import Manifests, daemon_pods
from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.state import StateDir
from kubeskew.scheduler.autoscaling.scale_down import DrainContext, Removal, simulate_removal
from kubeskew.scheduler.autoscaling.scale_up import Placement, Report, ScaleUp
from kubeskew.scheduler.autoscaling.snapshot import ClusterSnapshot, NodeTemplate
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.scheduler import SchedulerService

# Returns the list document of a path; raises StatusError, or a connection error.
Lists = Callable[[str], Awaitable[Object]]
_SYNC_SECONDS = 60.0
_OWNERS = (REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS)


class _Listed:
    def __init__(self, status: int, content: bytes) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"Content-Type": "application/json"}
        self._content = content

    async def body(self) -> bytes:
        return self._content

    async def lines(self) -> AsyncIterator[bytes]:
        """Never ends: a snapshot does not change."""
        await asyncio.Event().wait()
        yield b""

    async def close(self) -> None:
        return


class SnapshotTransport:
    """Serves lists of the objects of `cluster`, if there is one, and of those added by path."""

    def __init__(self, cluster: Lists | None, added: Mapping[str, Sequence[Object]]) -> None:
        self._cluster = cluster
        self._added = added

    async def close(self) -> None:
        return

    async def __call__(self, request: Request) -> Response:
        path, _, query = request.target.partition("?")
        if request.method != "GET":
            error = StatusError(405, "MethodNotAllowed", "a simulation writes nothing")
            return _Listed(error.code, orjson.dumps(error.status()))
        if "watch=true" in query:
            return _Listed(200, b"")
        listed: Object = {"metadata": {"resourceVersion": "1"}, "items": []}
        if self._cluster is not None:
            try:
                listed = await self._cluster(path)
            except StatusError as error:
                return _Listed(error.code, orjson.dumps(error.status()))
        items = [*listed["items"], *self._added.get(path, ())]
        return _Listed(200, orjson.dumps({**listed, "items": items}))


@dataclass(frozen=True, slots=True)
class Source:
    """The cluster is None for simulations of files only."""

    version: Version
    gates: FeatureGates
    cluster: Lists | None
    manifests: Manifests
    clock: Clock = field(default_factory=SystemClock)
    entropy: Entropy = field(default_factory=SeededEntropy)


@asynccontextmanager
async def _snapshot(source: Source) -> AsyncIterator[tuple[SchedulerService, APIClient]]:
    """Starts a scheduler and waits until its informers have listed everything; its client reads the same.

    Raises a connection error if the cluster does not answer.
    """
    from prometheus_client import CollectorRegistry

    if source.cluster is not None:
        await source.cluster(NODES.path())  # informers would try for ever
    client = APIClient(SnapshotTransport(source.cluster, source.manifests.by_path()))
    environment = Environment(source.version, source.gates, source.clock, source.entropy)
    service = SchedulerService(environment, client, CollectorRegistry(), queues=False)
    service.start()
    try:
        await asyncio.wait_for(service.settled(), _SYNC_SECONDS)
        yield service, client
    except TimeoutError:
        raise ClusterError("the API server does not answer all lists; see `kubeskew status`") from None
    finally:
        await service.stop()
        await client.close()


def source_of_cluster(directory: StateDir, dialled: Dial = dial) -> Source:
    """Version and gates are those of the cluster's scheduler."""
    scheduler = directory.load().processes["scheduler"]
    version, gates = Version.parse(scheduler.version), scheduler.feature_gates

    async def listed(path: str) -> Object:
        agent = user_agent("kubeskew", version)
        client = APIClient.from_kubeconfig(directory.kubeconfig, agent, dial=dialled)
        try:
            found: Object = await client.request("GET", path)
            return found
        finally:
            await client.close()

    return Source(version, gates, listed, Manifests(version, gates))


async def _all(client: APIClient, ref: Ref) -> list[Object]:
    items: list[Object] = (await client.list(ref))["items"]
    return items


def _cluster_snapshot(service: SchedulerService) -> ClusterSnapshot:
    return ClusterSnapshot(service.scheduler.profiles, service.filters, service.cache)


async def scale_up(source: Source, templates: Sequence[NodeTemplate], most: int, report: Report) -> Placement:
    """Raises SimulationError, ClusterError."""
    async with _snapshot(source) as (service, client):
        daemon_sets = await _all(client, DAEMON_SETS)
        pods = [PodInfo(pod) for pod in sorted(service.pods(), key=object_key) if _is_pending(pod, service)]
        with_pods = [
            replace(template, pods=[*daemon_pods(template.fresh_node("node"), daemon_sets)])
            for template in templates
        ]
        report(f"{len(pods)} pods are pending; {len(service.cache.nodes())} nodes are there")
        return ScaleUp(_cluster_snapshot(service), with_pods, report, most).run(pods)


def _is_pending(pod: Object, service: SchedulerService) -> bool:
    if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
        return False
    scheduler = pod["spec"].get("schedulerName") or "default-scheduler"
    return not is_terminal(pod) and scheduler in service.scheduler.profiles


async def feasible(source: Source) -> dict[str, str]:
    """Keys are uids of pending pods, which are placed one after the other.

    Raises SimulationError, ClusterError.
    """
    answer = await scale_up(source, [], 0, lambda _: None)
    return {uid: node for uid, (_, node) in answer.placed.items()}


async def rejections(source: Source, namespace: str, name: str) -> dict[tuple[str, str], list[str]]:
    """Plugins refuse nodes to a pending pod, by (plugin, reason): all of them if a plugin refuses the pod
    before it sees any. Raises SimulationError, ClusterError.
    """
    async with _snapshot(source) as (service, _):
        pod = next((pod for pod in service.pods() if object_key(pod) == (namespace, name)), None)
        if pod is None or not _is_pending(pod, service):
            return {}
        snapshot = _cluster_snapshot(service)
        before, by_node = snapshot.rejections(PodInfo(pod))
        if before is not None:
            by_node = {node.name: before for node in snapshot.nodes()}
        found: dict[tuple[str, str], list[str]] = {}
        for node, status in sorted(by_node.items()):
            if not status.is_success:
                found.setdefault((status.plugin, status.message), []).append(node)
        return found


async def scale_down(source: Source, node: str) -> Removal:
    """Raises UnknownNodeError, SimulationError, ClusterError."""
    async with _snapshot(source) as (service, client):
        budgets = await _all(client, POD_DISRUPTION_BUDGETS)
        owners = {(ref.kind, *object_key(owner)) for ref in _OWNERS for owner in await _all(client, ref)}

        def has_owner(kind: str, namespace: str, name: str) -> bool:
            return (kind, namespace, name) in owners

        context = DrainContext(
            SystemClock().now(), budgets, has_owner if source.cluster is not None else None
        )
        return simulate_removal(_cluster_snapshot(service), node, context)


def placement_json(answer: Placement) -> dict[str, Any]:
    fresh = {node for nodes in answer.nodes.values() for node in nodes}
    placed = [{"pod": pod.key, "node": node} for pod, node in answer.placed.values()]
    return {
        "templates": [
            {
                "name": template,
                "nodes": len(nodes),
                "nodeNames": nodes,
                "pods": [entry for entry in placed if entry["node"] in set(nodes)],
            }
            for template, nodes in answer.nodes.items()
        ],
        "existing": [entry for entry in placed if entry["node"] not in fresh],
        "unschedulable": [{"pod": pod.key, "reasons": reasons} for pod, reasons in answer.rejected],
    }


def removal_json(answer: Removal) -> dict[str, Any]:
    return {
        "node": answer.node,
        "removable": answer.possible,
        "scaleDownDisabled": answer.disabled,
        "pods": [
            *({"pod": pod.key, "node": node} for pod, node in answer.moved),
            *({"pod": pod.key, "reasons": [reason]} for pod, reason in answer.stuck),
        ],
        "withNode": [pod.key for pod in answer.with_node],
    }
