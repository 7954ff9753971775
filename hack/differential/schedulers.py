"""A real kube-scheduler and ours, each at a server of its own; the same history in both, pod by pod.

The real one goes first. Of nodes with the same score, and of equally cheap victims, chance chooses: ours then
takes what the real one took, if that is among its own. So both clusters stay the same, and all the rest is
compared as it is: scores, messages, conditions, events, nominations, victims, allocations.
"""

import asyncio
import json
import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from allocations import normal
from in_process_transport import real_cluster
from placements import CLAIMS, PODS, resource_version
from prometheus_client import CollectorRegistry
from worlds import API, Local, Object, Remote, directory, own_server, program, remove, resolved, send

from kubeskew.apimachinery.client.rest import APIClient, user_agent
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler import preemption
from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.profile import Profile
from kubeskew.scheduler.framework.status import Status
from kubeskew.scheduler.scheduler import SchedulerService

log = logging.getLogger(__name__)

_PATIENCE = 8.0  # seconds until a history goes on, quiet or not
_POLL = 0.02
_INFORMERS = 0.15  # seconds in which a change has reached all informers
_STILL = 0.12  # … and in which a scheduler that is not done does something
_UNSEEN = 0.6  # … with a pod of which it has said nothing: PreEnqueue may have kept it from the queue

_FINAL = re.compile(
    r'"Calculated node\'s final score for pod" pod="[^/"]*/([^"]+)" node="([^"]+)" score=(-?\d+)'
)
_PART = re.compile(
    r'"Plugin scored node for pod" pod="[^/"]*/([^"]+)" plugin="([^"]+)" node="([^"]+)" score=(-?\d+)'
)
_ATTEMPT = re.compile(r'"Attempting to schedule pod" pod="[^/"]*/([^"]+)"')
_WAITING = re.compile(r'^scheduler_pending_pods\{queue="(?:active|backoff)"\} (\d+)', re.MULTILINE)
_NOMINATED = re.compile(r" on node (\S+)$")
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EVENTS = "/apis/events.k8s.io/v1/namespaces/${run}/events"
_VOLUME_CLAIMS = "/api/v1/namespaces/${run}/persistentvolumeclaims"


@dataclass(slots=True)
class Seen:
    """The state that a scheduler has made of a history so far."""

    objects: Object
    scores: Mapping[str, Mapping[str, int]]  # by pod, those of its last attempt
    nodes: Mapping[str, str]  # by pod
    nominated: Sequence[str]


class Cluster(ABC):
    """A server with a scheduler at it."""

    def __init__(self, api: API, minor: int) -> None:
        self.api = api
        self._claims = CLAIMS.format(version=resource_version(minor))
        self._group = f"/apis/resource.k8s.io/{resource_version(minor)}"
        self.run = ""
        self._names: dict[str, str] = {}

    @abstractmethod
    async def waiting(self) -> int:
        """The number of pods that are about to be tried."""

    @abstractmethod
    def scores(self) -> Mapping[str, Mapping[str, int]]:
        """The scores of nodes, by pod."""

    def parts(self, pod: str) -> Any:
        """Returns what is known of how a pod's scores came about."""
        return None

    def begin(self, run: str) -> None:
        """Starts a history in a namespace."""
        self.run = run
        self._names = {}

    async def reset(self) -> None:
        """Deletes what a history has made; its namespace stays, empty."""
        claims = f"{self._group}/resourceclaims"
        namespaced = (
            "/api/v1/pods",
            claims,
            "/api/v1/persistentvolumeclaims",
            "/apis/policy/v1/poddisruptionbudgets",
        )
        storage = (
            "/api/v1/persistentvolumes",
            *(f"/apis/storage.k8s.io/v1/{name}" for name in ("csinodes", "storageclasses")),
        )
        await remove(self.api, namespaced)
        await remove(
            self.api,
            (f"{self._group}/resourceslices", f"{self._group}/deviceclasses", *storage, "/api/v1/nodes"),
        )
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await remove(self.api, (classes,), spared=("system-node-critical", "system-cluster-critical"))

    async def _listed(self, path: str) -> list[Object]:
        return (await self.api("GET", path.replace("${run}", self.run))).items

    async def _state(self) -> Mapping[str, list[Object]]:
        paths = {"pods": PODS, "claims": self._claims, "events": _EVENTS, "volumes": _VOLUME_CLAIMS}
        return {name: await self._listed(path) for name, path in paths.items()}

    async def quiet(self, pod: str | None) -> None:
        """Waits until the scheduler has done what it can; `pod` is the one that has come, if nothing else
        changed."""
        ended = time.monotonic() + _PATIENCE
        if pod is None:
            await asyncio.sleep(_INFORMERS)
        last, since = None, 0.0
        while time.monotonic() < ended:
            state = await self._state()
            if pod is not None and _is_done(pod, state):
                return
            # Events are counted alone: those of a pod that is tried again and again change on and on.
            seen = json.dumps(
                [
                    [each["metadata"]["name" if part == "events" else "resourceVersion"] for each in items]
                    for part, items in state.items()
                ]
            )
            still = _UNSEEN if any(map(_is_open, state["pods"])) else _STILL
            if seen != last or (await self.waiting() and not any(map(_is_error, state["pods"]))):
                last, since = seen, time.monotonic()
            elif time.monotonic() - since >= still:
                return
            await asyncio.sleep(_POLL)
        left = [each["metadata"]["name"] for each in state["pods"] if not each["spec"].get("nodeName")]
        log.info(
            "%s of %s: not quiet, %s waiting, pods %s",
            type(self).__name__,
            self.run,
            await self.waiting(),
            left,
        )

    async def seen(self) -> Seen:
        """Returns what there is, without what differs from run to run."""
        state = await self._state()
        for each in (*state["pods"], *state["claims"]):
            self._names[each["metadata"]["uid"]] = (
                each["metadata"].get("generateName") or each["metadata"]["name"]
            )
        pods = {each["metadata"]["name"]: _pod(each) for each in state["pods"]}
        claims = [_claim(each) for each in state["claims"]]
        volumes = {each["metadata"]["name"]: _volume(each) for each in state["volumes"]}
        # How often an event was repeated, and in how many objects, is a matter of time.
        events = [_event(each) for each in state["events"]]
        made = {"pods": pods, "claims": claims, "volumes": volumes, "events": events}
        text = json.dumps(made).replace(self.run, "${run}")
        objects = json.loads(_UID.sub(lambda found: f"<{self._names.get(found[0], 'drawn')}>", text))
        # How often an event was repeated, and in how many objects, is a matter of time.
        texts = dict.fromkeys(json.dumps(each, sort_keys=True) for each in objects["events"])
        objects["events"] = [json.loads(each) for each in sorted(texts)]
        objects["claims"].sort(key=lambda each: json.dumps(each, sort_keys=True))
        nominated = [
            found[1]
            for each in state["events"]
            if each.get("reason") == "Preempted" and (found := _NOMINATED.search(each.get("note") or ""))
        ]
        nodes = {name: each["node"] for name, each in pods.items() if each["node"]}
        return Seen(objects, self.scores(), nodes, nominated)


def _is_open(pod: Object) -> bool:
    """True of a pod that a scheduler has not looked at yet, or that waits for its victims."""
    if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return not any(each["type"] == "PodScheduled" for each in conditions)


def _is_error(pod: Object) -> bool:
    """True of a pod that is tried again and again."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("reason") == "SchedulerError" for each in conditions)


def _is_done(name: str, state: Mapping[str, list[Object]]) -> bool:
    """True if the pod that has come has its node or its refusal, and no other waits."""
    scheduled = {
        each["regarding"].get("uid") for each in state["events"] if each.get("reason") == "Scheduled"
    }
    for pod in state["pods"]:
        if pod["metadata"]["name"] != name:
            if pod["metadata"]["uid"] not in scheduled:
                return False
        elif _is_open(pod) or (pod.get("status") or {}).get("nominatedNodeName"):
            return False
        else:
            reason = "Scheduled" if pod["spec"].get("nodeName") else "FailedScheduling"
            if any(each.get("reason") == "Preempted" for each in state["events"]):
                return False
            if not any(
                each.get("reason") == reason and each["regarding"].get("uid") == pod["metadata"]["uid"]
                for each in state["events"]
            ):
                return False
    return True


def _pod(pod: Object) -> Object:
    status = pod.get("status") or {}
    conditions = {
        each["type"]: {key: each[key] for key in sorted(each) if key not in _TIMES}
        for each in status.get("conditions") or ()
    }
    extended = json.loads(json.dumps(status.get("extendedResourceClaimStatus")))
    if extended:
        extended["resourceClaimName"] = "<drawn>"
    return {
        "node": pod["spec"].get("nodeName"),
        "nominated": status.get("nominatedNodeName"),
        "conditions": conditions,
        "extended": extended,
        "deleting": bool(pod["metadata"].get("deletionTimestamp")),
    }


_TIMES = {"lastTransitionTime", "lastProbeTime", "type"}


def _claim(claim: Object) -> Object:
    metadata, status = claim["metadata"], dict(claim.get("status") or {})
    allocation = status.get("allocation")
    if allocation:
        allocation.pop("allocationTimestamp", None)
        status["allocation"] = normal({"allocations": [allocation]})["allocations"][0]
    name = metadata["name"]
    if metadata.get("generateName"):
        name = metadata["generateName"]
        if status.get("reservedFor") is not None:
            status["reservedFor"] = [dict(each) for each in status["reservedFor"]]
    return {
        "name": name,
        "status": status,
        "finalizers": metadata.get("finalizers"),
        "annotations": metadata.get("annotations"),
        "spec": claim["spec"] if metadata.get("generateName") else None,
    }


def _volume(claim: Object) -> Object:
    return {"annotations": claim["metadata"].get("annotations"), "volume": claim["spec"].get("volumeName")}


def _event(event: Object) -> Object:
    return {
        "pod": event["regarding"].get("name"),
        "related": (event.get("related") or {}).get("name"),
        **{key: event.get(key) for key in ("reason", "note", "type", "action", "reportingController")},
    }


class RealCluster(Cluster):
    """The cluster of upstream's program."""

    def __init__(self, api: Remote, minor: int, log: Path, metrics: Remote) -> None:
        super().__init__(api, minor)
        self._log = log
        self._metrics = metrics
        self._read = 0
        self._scores: dict[str, dict[str, int]] = {}
        self._parts: dict[str, list[Sequence[str]]] = {}

    async def waiting(self) -> int:
        answer = await self._metrics("GET", "/metrics")
        return sum(int(number) for number in _WAITING.findall(answer.body.get("text", "")))

    def begin(self, run: str) -> None:
        super().begin(run)
        self._read = self._log.stat().st_size
        self._scores, self._parts = {}, {}

    def scores(self) -> Mapping[str, Mapping[str, int]]:
        with self._log.open("rb") as log:
            log.seek(self._read)
            text = log.read()
        end = text.rfind(b"\n") + 1
        self._read += end
        for line in text[:end].decode(errors="replace").split("\n"):
            if found := _ATTEMPT.search(line):
                self._scores.pop(found[1], None)
                self._parts.pop(found[1], None)
            elif found := _FINAL.search(line):
                self._scores.setdefault(found[1], {})[found[2]] = int(found[3])
            elif found := _PART.search(line):
                self._parts.setdefault(found[1], []).append(found.groups()[1:])
        return self._scores

    def parts(self, pod: str) -> Any:
        return self._parts.get(pod)


class OwnCluster(Cluster):
    """The cluster of our scheduler, which is in this process."""

    def __init__(self, api: Local, minor: int, service: SchedulerService) -> None:
        super().__init__(api, minor)
        self._service = service
        self._scores: dict[str, Mapping[str, int]] = {}
        self.wanted: Mapping[str, str] = {}  # nodes by pod
        self.preferred: Sequence[str] = ()  # nodes for preemption
        for profile in service.scheduler.profiles.values():
            setattr(profile, "run_scores", self._scored(profile))  # noqa: B010 - of this one alone

    async def waiting(self) -> int:
        return self._service.queue.sizes["active"] + self._service.queue.sizes["backoff"]

    def begin(self, run: str) -> None:
        super().begin(run)
        self._scores = {}

    def scores(self) -> Mapping[str, Mapping[str, int]]:
        return self._scores

    def _scored(self, profile: Profile) -> Callable[..., dict[str, int] | Status]:
        score = profile.run_scores

        def scored(state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> dict[str, int] | Status:
            found = score(state, pod, nodes)
            if isinstance(found, Status):
                return found
            self._scores[pod.name] = dict(found)
            wanted, highest = self.wanted.get(pod.name, ""), max(found.values())
            return {wanted: highest} if found.get(wanted) == highest else found

        return scored

    def best(self, candidates: Sequence[preemption.Candidate]) -> preemption.Candidate:
        """Chooses the real one's node among equals."""
        first = _BEST(candidates)
        rank = (preemption.cost(first), preemption.earliest_start(first))
        equals = [
            each
            for each in candidates
            if (preemption.cost(each), preemption.earliest_start(each)) == rank
            and each.node in self.preferred
        ]
        return equals[0] if equals else first


_BEST = preemption.best


@dataclass(frozen=True, slots=True)
class Schedulers:
    """Both clusters."""

    real: RealCluster
    ours: OwnCluster

    async def first_apart(self, sequence: Mapping[str, Any], run: str) -> tuple[int, list[str]] | None:
        """Runs a history; returns the first step that came out apart, and how."""
        await asyncio.gather(self.real.reset(), self.ours.reset())
        for cluster in (self.real, self.ours):
            cluster.begin(run)
        self.ours.wanted, self.ours.preferred = {}, ()
        steps = [resolved(each, run) for each in sequence["steps"]]
        before = next((number for number, each in enumerate(steps) if each.get("waits")), len(steps))
        await asyncio.gather(*(_sent(each, steps[:before]) for each in (self.real, self.ours)))
        await asyncio.sleep(_INFORMERS)
        for number, step in enumerate(steps[before:], before):
            if not await self._is_due(step):
                continue
            real, ours = await self._both(step)
            if real is None or ours is None:
                continue
            found = [*differences(real.objects, ours.objects), *_scores_apart(real, ours, self.real)]
            if found:
                return number, found
        return None

    async def _is_due(self, step: Object) -> bool:
        """Some steps are for pods that have a node, or none."""
        name = step.get("of_bound") or step.get("of_unbound")
        if name is None:
            return True
        pod = await self.real.api("GET", f"{PODS.replace('${run}', self.real.run)}/{name}")
        return pod.status == 200 and bool(pod.body["spec"].get("nodeName")) is bool(step.get("of_bound"))

    async def _both(self, step: Object) -> tuple[Seen | None, Seen | None]:
        pod = step["body"]["metadata"]["name"] if step["method"] == "POST" and step.get("waits") else None
        if not step.get("waits"):
            await asyncio.gather(*(send(each.api, step) for each in (self.real, self.ours)))
            return None, None
        theirs = await send(self.real.api, step)
        if theirs.status < 300:
            await self.real.quiet(pod)
        real = await self.real.seen()
        self.ours.wanted, self.ours.preferred = real.nodes, real.nominated
        preemption.best = self.ours.best
        try:
            own = await send(self.ours.api, step)
            if own.status < 300:
                await self.ours.quiet(pod)
        finally:
            preemption.best = _BEST
        return real, await self.ours.seen()


async def _sent(cluster: Cluster, steps: Sequence[Object]) -> None:
    for step in steps:
        await send(cluster.api, step)


def _scores_apart(real: Seen, ours: Seen, cluster: RealCluster) -> Iterator[str]:
    for pod in sorted(real.nodes):
        theirs, own = real.scores.get(pod), ours.scores.get(pod)
        if theirs is None or (own is not None and _from_least(theirs) == _from_least(own)):
            continue
        expected, got = (json.dumps(each, sort_keys=True) for each in (theirs, own))
        yield f"scores of {pod}: expected {expected}, got {got} ({cluster.parts(pod)})"


def _from_least(scores: Mapping[str, int]) -> Mapping[str, int]:
    """Ours leaves out plugins that score all nodes the same."""
    least = min(scores.values())
    return {name: score - least for name, score in scores.items()}


def differences(real: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Yields where two values are apart."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in sorted({*real, *ours}):
            yield from differences(real.get(key), ours.get(key), f"{path}.{key}" if path else key)
    elif isinstance(real, list) and isinstance(ours, list) and real != ours:
        missing = [each for each in real if each not in ours]
        more = [each for each in ours if each not in real]
        if len(missing) == len(more) == 1 and isinstance(missing[0], dict):
            yield from differences(missing[0], more[0], f"{path}[]")
        else:
            for word, each in (*(("missing", one) for one in missing), *(("more", one) for one in more)):
                yield f"{path}: {word} {json.dumps(each, sort_keys=True)}"
            if not missing and not more:
                yield f"{path}: another order or number"
    elif real != ours:
        yield f"{path}: expected {json.dumps(real)}, got {json.dumps(ours)}"


@asynccontextmanager
async def schedulers(
    binaries: Path, minor: str, patch: str, gates: Mapping[str, bool]
) -> AsyncIterator[Schedulers]:
    """Both clusters, with gates other than the release's defaults; ended with the context."""
    flag = ",".join(f"{name}={str(on).lower()}" for name, on in sorted(gates.items()))
    flags = [f"--feature-gates={flag}"] if gates else []
    version = Version.parse(patch)
    # The scheduler itself reads the older of the two versions.
    beta = () if version.minor >= 34 else ("v1beta1", resource_version(version.minor))
    config = {f"resource.k8s.io/{name}": True for name in beta}
    served = [f"--runtime-config={','.join(f'{name}=true' for name in config)}"] if config else []
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(directory())
        api, port = await stack.enter_async_context(own_server(place, patch, [*flags, *served]))
        (place / "scheduler.yaml").write_text(yaml.safe_dump(_configuration(place)))
        arguments = [
            f"--config={place / 'scheduler.yaml'}",
            "--vmodule=schedule_one=10,schedule_one_pod=10",
            *flags,
        ]
        real = await stack.enter_async_context(
            program(binaries / minor / "kube-scheduler", place, port, arguments)
        )
        own = await stack.enter_async_context(
            real_cluster(version, gates, started=False, runtime_config=config)
        )
        agent = {"User-Agent": user_agent("kube-scheduler", version)}
        connection = APIClient(own.transport, clock=own.environment.clock, headers=agent)
        service = SchedulerService(own.environment, connection, CollectorRegistry())
        service.start()
        ended = asyncio.Event()
        leading = asyncio.create_task(service.lead(ended))
        try:
            metrics = Remote(api.http, f"https://127.0.0.1:{real.port}")
            theirs = RealCluster(api, version.minor, real.log, metrics)
            yield Schedulers(theirs, OwnCluster(Local(own.server), version.minor, service))
        finally:
            ended.set()
            await leading
            await service.stop()


def _configuration(place: Path) -> Object:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(place / "kubeconfig"), "qps": 1000, "burst": 2000},
    }
