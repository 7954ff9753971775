"""Runs one simulation: a scheduler's informers, a snapshot of what they have, and the question."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

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
from kubeskew.apimachinery.clock import Clock, Entropy, SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.autoscaling.manifests import Manifests
from kubeskew.cluster.autoscaling.source import Lists, SnapshotTransport
from kubeskew.cluster.autoscaling.workloads import daemon_pods
from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.state import StateDir
from kubeskew.scheduler.autoscaling.drainability import DrainContext
from kubeskew.scheduler.autoscaling.scale_down import Removal, simulate_removal
from kubeskew.scheduler.autoscaling.scale_up import Placement, Report, ScaleUp
from kubeskew.scheduler.autoscaling.snapshot import ClusterSnapshot
from kubeskew.scheduler.autoscaling.templates import NodeTemplate
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.scheduler import SchedulerService

_SYNC_SECONDS = 60.0
_OWNERS = (REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS)


@dataclass(frozen=True, slots=True)
class Source:
    """The subject: version and gates of the scheduler, a cluster or none, and objects of files; and what time
    and chance the scheduler has."""

    version: Version
    gates: FeatureGates
    cluster: Lists | None
    manifests: Manifests
    clock: Clock = field(default_factory=SystemClock)
    entropy: Entropy = field(default_factory=SeededEntropy)


@asynccontextmanager
async def _snapshot(source: Source) -> AsyncIterator[tuple[SchedulerService, APIClient]]:
    """Gives a scheduler whose informers have listed everything, and a client that reads the same.

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
    """Returns the cluster of a state directory, with version and gates of its scheduler."""
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
    """Returns which nodes make the pending pods fit. Raises SimulationError, ClusterError."""
    async with _snapshot(source) as (service, client):
        daemon_sets = await _all(client, DAEMON_SETS)
        pods = [
            PodInfo(pod)
            for pod in sorted(service.pods(), key=lambda pod: _place(pod))
            if _is_pending(pod, service)
        ]
        with_pods = [
            replace(template, pods=[*daemon_pods(template.fresh_node("node"), daemon_sets)])
            for template in templates
        ]
        report(f"{len(pods)} pods are pending; {len(service.cache.nodes())} nodes are there")
        return ScaleUp(_cluster_snapshot(service), with_pods, report, most).run(pods)


def _place(pod: Object) -> tuple[str, str]:
    return pod["metadata"].get("namespace", ""), pod["metadata"]["name"]


def _is_pending(pod: Object, service: SchedulerService) -> bool:
    if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
        return False
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    scheduler = pod["spec"].get("schedulerName") or "default-scheduler"
    return not ended and scheduler in service.scheduler.profiles


async def feasible(source: Source) -> dict[str, str]:
    """Returns, by the uid of a pending pod, a node that it fits now; pods are placed one after the other.

    Raises SimulationError, ClusterError.
    """
    answer = await scale_up(source, [], 0, lambda _: None)
    return {uid: node for uid, (_, node) in answer.placed.items()}


async def rejections(source: Source, namespace: str, name: str) -> dict[tuple[str, str], list[str]]:
    """Returns by plugin and reason the nodes that are refused to a pending pod: all of them where a plugin
    refuses the pod before it looks at any. Raises SimulationError, ClusterError.
    """
    async with _snapshot(source) as (service, _):
        pod = next((pod for pod in service.pods() if _place(pod) == (namespace, name)), None)
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
    """Returns where the node's pods would go. Raises UnknownNodeError, SimulationError, ClusterError."""
    async with _snapshot(source) as (service, client):
        budgets = await _all(client, POD_DISRUPTION_BUDGETS)
        owners = {(ref.kind, *_place(owner)) for ref in _OWNERS for owner in await _all(client, ref)}

        def has_owner(kind: str, namespace: str, name: str) -> bool:
            return (kind, namespace, name) in owners

        context = DrainContext(
            SystemClock().now(), budgets, has_owner if source.cluster is not None else None
        )
        return simulate_removal(_cluster_snapshot(service), node, context)
