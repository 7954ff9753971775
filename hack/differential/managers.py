"""A real kube-controller-manager and ours, each at a server of its own; the same history in both.

Nobody schedules or runs pods but the history: it binds some, and writes their statuses, as a kubelet might.
What is compared is what there is once nothing changes any more. Which of several like pods a controller
deletes, and how a generated name ends, is chance: pods are compared as a set, without names that were drawn.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from managed_surroundings import NODES, rules_version
from placements import resource_version
from schedulers import differences
from worlds import (
    MERGE,
    Object,
    Remote,
    _ended,
    directory,
    own_server,
    program,
    resolved,
    send,
    write_kubeconfig,
)

from benchmarks.real_servers import ROOT
from kubeskew.apimachinery.versions import Version

_STILL = 2.5  # seconds without a change: longer than controllers gather changes for
_PATIENCE = 30.0
_POLL = 0.25
_READY = "2026-01-01T00:00:00Z"

_LISTED = (
    "/api/v1/{0}/pods", "/apis/apps/v1/{0}/replicasets", "/apis/apps/v1/{0}/deployments",
    "/apis/apps/v1/{0}/statefulsets", "/apis/apps/v1/{0}/daemonsets", "/apis/apps/v1/{0}/controllerrevisions",
    "/apis/batch/v1/{0}/jobs", "/apis/policy/v1/{0}/poddisruptionbudgets", "/api/v1/{0}/resourcequotas",
    "/api/v1/{0}/endpoints", "/apis/discovery.k8s.io/v1/{0}/endpointslices",
    "/api/v1/{0}/persistentvolumeclaims", "/api/v1/{0}/configmaps", "/api/v1/{0}/serviceaccounts",
    "/api/v1/{0}/replicationcontrollers", "/apis/batch/v1/{0}/cronjobs", "/api/v1/{0}/secrets",
    "/apis/autoscaling/v2/{0}/horizontalpodautoscalers", "/apis/example.com/v1/{0}/widgets",
    "/api/v1/{0}/events",
)  # fmt: skip
_CLUSTER = ("/api/v1/nodes", "/api/v1/persistentvolumes")  # those that begin with the name of the history
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_BEAT = 10.0  # seconds between signs of life of a node
# UPSTREAM: <carry> what the fork adds whose sources the programs were built from.
_CARRIED = {"openshift-service-ca.crt"}
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": _OPEN, "status": _OPEN}}
                },
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
            }
        ],
    },
}
_DROPPED = {
    "uid", "resourceVersion", "creationTimestamp", "managedFields", "lastTransitionTime", "lastProbeTime",
    "lastUpdateTime", "startTime", "completionTime", "deletionTimestamp", "selfLink", "ownerUid",
    "controller-uid", "batch.kubernetes.io/controller-uid",
    "endpoints.kubernetes.io/last-change-trigger-time", "lastHeartbeatTime",
    "kubernetes.io/service-account.uid",
}  # fmt: skip
_SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UID_OF = re.compile(r"\$\{uid:([^}]*)\}")
_TIMELY = (
    "(combined from similar events)", "the object has been modified",
    "to be scheduled", "waiting for first consumer",  # of a claim, every 15 seconds
)  # fmt: skip
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


class Managed:
    """A server with a controller manager at it, and one history."""

    def __init__(self, api: Remote, run: str, listed: Sequence[str], still: float) -> None:
        self._api = api
        self.run = run
        self.still = still
        self._hashes: dict[str, str] = {}
        self._listed = listed
        self._beaten = -_BEAT

    async def _all(self) -> list[list[Object]]:
        paths = [path.format(f"namespaces/{self.run}") for path in self._listed]
        answers = await asyncio.gather(*(self._api("GET", path) for path in paths))
        return [
            [one for one in each.items if "{0}" in path or one["metadata"]["name"].startswith(f"{self.run}-")]
            for path, each in zip(self._listed, answers, strict=True)
        ]

    async def _beat(self) -> None:
        """Says that the nodes are alive, as their kubelets would."""
        if time.monotonic() - self._beaten < _BEAT:
            return
        for number in range(NODES):
            name = f"{self.run}-node-{number}"
            spec = {"holderIdentity": name, "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
            if (await self._api("PATCH", f"{_LEASES}/{name}", {"spec": spec}, MERGE)).status == 404:
                body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
                await self._api("POST", _LEASES, {**body, "spec": spec})
        self._beaten = time.monotonic()

    async def quiet(self) -> None:
        """Waits until nothing has changed for a while."""
        ended, since, last = time.monotonic() + _PATIENCE + self.still, time.monotonic(), ""
        while time.monotonic() < ended and time.monotonic() - since < self.still:
            await self._beat()
            found = await self._all()
            namespace = await self._api("GET", f"/api/v1/namespaces/{self.run}")
            seen = json.dumps(
                [
                    [_version(each) for each in items]
                    for items in (*found, [namespace.body] if namespace.status == 200 else [])
                ]
            )
            if seen != last:
                last, since = seen, time.monotonic()
            await asyncio.sleep(_POLL)

    async def seen(self) -> Object:
        """Returns what there is, without what differs from run to run."""
        made: Object = {}
        found = await self._all()
        self._hashes |= _hashes(each for items in found for each in items)
        for path, items in zip(self._listed, found, strict=True):
            kind = path.rpartition("/")[2]
            items = [each for each in items if each["metadata"]["name"] not in _CARRIED]
            texts = [self._normal(_event(each) if kind == "events" else _object(each)) for each in items]
            if kind == "events":
                # How often an event was repeated, and that a write met another one, are matters of time.
                texts = [each for each in texts if not any(part in each for part in _TIMELY)]
                texts = sorted(dict.fromkeys(texts))
            made[kind] = [json.loads(each) for each in sorted(texts)]
        namespace = await self._api("GET", f"/api/v1/namespaces/{self.run}")
        made["namespace"] = (
            json.loads(self._normal(_object(namespace.body))) if namespace.status == 200 else None
        )
        return made

    def _normal(self, value: Any) -> str:
        text = _SUFFIX.sub("-<drawn>", json.dumps(value, sort_keys=True)).replace(self.run, "${run}")
        for drawn, name in self._hashes.items():
            text = text.replace(drawn, name)
        return _TIME.sub("<time>", _UID.sub("<uid>", _SUFFIX.sub("-<drawn>", text)))

    async def do(self, step: Object) -> None:
        """Sends a request, or acts on some pods."""
        self.still = max(self.still, step.get("still", 0))
        if step.get("act") == "revise":
            await self._revise(step)
            return
        if "act" in step:
            await self._act(step)
            return
        text = json.dumps(step)
        for path in _UID_OF.findall(text):
            found = await self._api("GET", path)
            text = text.replace(f"${{uid:{path}}}", (found.body.get("metadata") or {}).get("uid", "none"))
        await send(self._api, json.loads(text))

    async def _act(self, step: Object) -> None:
        base = f"/api/v1/namespaces/{self.run}/pods"
        pods = (await self._api("GET", f"{base}?labelSelector=app%3D{step['app']}")).items
        fitting = [each for each in pods if _fits(step["act"], each)]
        fitting.sort(key=lambda each: (self._normal(_object(each)), each["metadata"]["name"]))
        chosen = fitting[: step["count"]] if step["from"] == "first" else fitting[-step["count"] :]
        for pod in chosen:
            await self._act_on(step, f"{base}/{pod['metadata']['name']}", pod, _number(pod))

    async def _revise(self, step: Object) -> None:
        """Has the first revision or replica set of a workload lose its owner, or deletes it."""
        for plural in ("controllerrevisions", "replicasets"):
            base = f"/apis/apps/v1/namespaces/{self.run}/{plural}"
            found = (await self._api("GET", f"{base}?labelSelector=app%3D{step['app']}")).items
            for each in sorted(found, key=self._normal_of)[:1]:
                path = f"{base}/{each['metadata']['name']}"
                if step["how"] == "remove":
                    await self._api("DELETE", path)
                else:
                    await self._api("PATCH", path, {"metadata": {"ownerReferences": None}}, MERGE)

    def _normal_of(self, obj: Object) -> str:
        return self._normal(_object(obj))

    async def _claims(self, step: Object, pod: Object) -> list[Object]:
        """Returns the claims of a pod that there are."""
        made = {
            each["name"]: each.get("resourceClaimName")
            for each in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        }
        names = [
            each.get("resourceClaimName") or made.get(each["name"])
            for each in pod["spec"].get("resourceClaims") or ()
        ]
        found = [await self._api("GET", f"{step['claims']}/{name}") for name in names if name]
        return [each.body for each in found if each.status == 200]

    async def _reserve(self, step: Object, pod: Object, number: int) -> None:
        """Allocates a pod's claims and reserves them for it, as a scheduler does."""
        for claim in await self._claims(step, pod):
            path = f"{step['claims']}/{claim['metadata']['name']}"
            status = dict(claim.get("status") or {})
            if "allocation" not in status:
                held = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
                await self._api("PATCH", path, held, MERGE)
                result = {
                    "request": "r",
                    "driver": f"{self.run}.example.com",
                    "pool": "pool",
                    "device": f"d-{number % 3}",
                    "tolerations": step["tolerations"] or None,
                }
                status["allocation"] = {"devices": {"results": [result]}}
            user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            if user not in (reserved := list(status.get("reservedFor") or ())):
                status["reservedFor"] = [*reserved, user]
            await self._api("PATCH", f"{path}/status", {"status": status}, MERGE)

    async def _act_on(self, step: Object, path: str, pod: Object, number: int) -> None:
        act = step["act"]
        if act == "delete":
            await self._api("DELETE", path)
        elif act == "reap":
            await self._api("DELETE", f"{path}?gracePeriodSeconds=0")
        elif act == "relabel":
            await self._api("PATCH", path, {"metadata": {"labels": {"app": "other"}}}, MERGE)
        elif act == "reserve":
            await self._reserve(step, pod, number)
        elif act == "unclaim":
            for claim in await self._claims(step, pod):
                await self._api("DELETE", f"{step['claims']}/{claim['metadata']['name']}")
        elif act == "evict":
            body = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod["metadata"]["name"]},
            }
            await self._api("POST", f"{path}/eviction", body)
        else:
            await self._run(step, path, pod, number)

    async def _run(self, step: Object, path: str, pod: Object, number: int) -> None:
        if not pod["spec"].get("nodeName"):
            target = {
                "apiVersion": "v1",
                "kind": "Node",
                "name": _node_of(pod) or f"{self.run}-node-{number % 2}",
            }
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod["metadata"]["name"]},
                "target": target,
            }
            await self._api("POST", f"{path}/binding", body)
        # Conditions that a controller has written meanwhile stay.
        strategic = "application/strategic-merge-patch+json"
        await self._api("PATCH", f"{path}/status", {"status": _status(step, number)}, strategic)


def _version(obj: Object) -> Sequence[str]:
    """Returns what changes with an object; an event that is repeated changes nothing."""
    metadata = obj["metadata"]
    return metadata["name"], "" if "involvedObject" in obj else metadata["resourceVersion"]


def _number(pod: Object) -> int:
    """Returns what tells a pod from others, by which it has its node and address.

    Pods that a controller takes for alike have the same: which of them it deletes is chance.
    """
    labels = pod["metadata"].get("labels") or {}
    for name in ("apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index"):
        if str(labels.get(name, "")).isdigit():
            return int(labels[name])
    return zlib.crc32((_node_of(pod) or str(labels.get("app"))).rpartition("-")[2].encode()) % 8


def _node_of(pod: Object) -> str:
    """Returns the node that a DaemonSet made the pod for."""
    terms = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in terms.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return ""


def _fits(act: str, pod: Object) -> bool:
    phase, leaving = (pod.get("status") or {}).get("phase"), bool(pod["metadata"].get("deletionTimestamp"))
    over = phase in {"Succeeded", "Failed"}
    if act == "reap":
        return leaving
    if act == "run":
        return phase == "Pending" and not leaving
    if act in {"ready", "unready"}:
        return phase == "Running" and not leaving
    if act in {"succeed", "fail", "reserve"}:
        return not over
    if act == "unclaim":
        return True
    # Deleted pods without a node are for the collector of pods, which comes every 20 s.
    return not leaving and bool(pod["spec"].get("nodeName"))


def _status(step: Object, number: int) -> Object:
    act = step["act"]
    over = act in {"succeed", "fail"}
    phase = {"succeed": "Succeeded", "fail": "Failed"}.get(act, "Running")
    ready = act in {"run", "ready"}
    conditions = [
        {"type": name, "status": "True" if ready else "False", "lastTransitionTime": _READY}
        for name in ("Ready", "ContainersReady")
    ]
    conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": _READY})
    if step.get("disrupted"):
        conditions.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "lastTransitionTime": _READY,
            }
        )
    code = step.get("code", 0)
    ended = {
        "terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": _READY}
    }
    container = {
        "name": "c",
        "ready": ready,
        "started": not over,
        "restartCount": 0,
        "image": "app",
        "imageID": "app",
        "state": ended if over else {"running": {"startedAt": _READY}},
    }
    address = f"10.0.0.{1 + number}"
    return {
        "phase": phase,
        "conditions": conditions,
        "containerStatuses": [container],
        "startTime": _READY,
        "podIP": address,
        "podIPs": [{"ip": address}],
    }


def _object(obj: Object) -> Any:
    made = _pruned(obj)
    metadata = made.get("metadata") or {}
    if metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + "<drawn>"
    made["deleting"] = bool(obj["metadata"].get("deletionTimestamp"))
    if made.get("kind") == "ConfigMap" or metadata.get("name") == "kube-root-ca.crt":
        made.pop("data", None)
    status = made.get("status")
    if isinstance(status, dict) and isinstance(status.get("conditions"), list):
        status["conditions"].sort(key=lambda each: each["type"])
    if isinstance(made.get("type"), str):  # of a secret
        made["data"] = sorted(made.get("data") or ())
    if isinstance(status, dict) and isinstance(status.get("reservedFor"), list):
        status["reservedFor"].sort(key=lambda each: each["name"])
    for subset in made.get("subsets") or ():  # of addresses that pods share, any order may come
        for addresses in (subset.get("addresses"), subset.get("notReadyAddresses")):
            (addresses or []).sort(key=lambda each: json.dumps(each, sort_keys=True))
    for name in ("endpoints", "subsets"):
        if isinstance(made.get(name), list):
            made[name].sort(key=lambda each: json.dumps(each, sort_keys=True))
    return made


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _pruned(each) for key, each in value.items() if key not in _DROPPED}
    if isinstance(value, list):
        return [_pruned(each) for each in value]
    return value


def _hashes(objects: Iterable[Object]) -> Iterator[tuple[str, str]]:
    """Yields hashes of templates, which ours makes in its own way, and names by what was hashed."""
    for each in objects:
        labels = each["metadata"].get("labels") or {}
        drawn = labels.get("pod-template-hash") or labels.get("controller-revision-hash")
        hashed = each.get("data") or (each.get("spec") or {}).get("template")
        if drawn is None or hashed is None:
            continue
        text = json.dumps(_pruned(hashed), sort_keys=True).replace(drawn, "")
        yield drawn, f"<hash-{zlib.crc32(text.encode()):08x}>"


def _event(event: Object) -> Object:
    involved = event.get("involvedObject") or {}
    kept = {key: event.get(key) for key in ("reason", "message", "type")}
    return {
        **kept,
        "kind": involved.get("kind"),
        "name": involved.get("name"),
        "source": (event.get("source") or {}).get("component"),
    }


class Managers:
    """Both controller managers."""

    def __init__(self, real: Remote, ours: Remote, listed: Sequence[str]) -> None:
        self._apis = (real, ours)
        self._listed = listed

    async def first_apart(self, sequence: Mapping[str, Any], run: str) -> tuple[int, list[str]] | None:
        """Runs a history; returns the first step that came out apart, and how."""
        both = [Managed(api, run, self._listed, _STILL) for api in self._apis]
        for number, each in enumerate(sequence["steps"]):
            step = resolved(each, run)
            await asyncio.gather(*(one.do(step) for one in both))
            if not step.get("waits"):
                continue
            await asyncio.gather(*(one.quiet() for one in both))
            real, ours = await asyncio.gather(*(one.seen() for one in both))
            found = [*_named_differences(real, ours)]
            if found:
                return number, found
        return None


def _named_differences(real: Object, ours: Object) -> Iterator[str]:
    for kind in sorted(real):
        yield from differences(real[kind], ours[kind], kind)


@asynccontextmanager
async def managers(
    binaries: Path, minor: str, patch: str, gates: Mapping[str, bool]
) -> AsyncIterator[Managers]:
    """Both, with gates other than the release's defaults; ended with the context."""
    flag = ",".join(f"{name}={str(on).lower()}" for name, on in sorted(gates.items()))
    flags = [f"--feature-gates={flag}"] if gates else []
    version = Version.parse(patch)
    devices, rules = resource_version(version.minor), rules_version(version.minor)
    apis = [f"{devices}=true" if version.minor < 34 else "", f"{rules}=true" if rules else ""]
    served = ",".join(f"resource.k8s.io/{each}" for each in dict.fromkeys(apis) if each)
    listed = [*_LISTED]
    listed[-1:-1] = [f"/apis/resource.k8s.io/{devices}/{{0}}/resourceclaims", *_CLUSTER]
    if rules:
        listed.insert(-1, f"/apis/resource.k8s.io/{rules}/devicetaintrules")
    server_flags = [*flags, *([f"--runtime-config={served}"] if served else [])]
    async with AsyncExitStack() as stack:
        places = [await stack.enter_async_context(directory()) for _ in range(2)]
        (real, port), (ours, other) = [
            await stack.enter_async_context(own_server(place, patch, server_flags)) for place in places
        ]
        for api in (real, ours):
            await _define_widgets(api)
        arguments = (
            f"--kubeconfig={places[0] / 'kubeconfig'}",
            "--leader-elect=false",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            f"--service-account-private-key-file={places[0] / 'sa.key'}",
            *flags,
        )
        await stack.enter_async_context(
            program(binaries / minor / "kube-controller-manager", places[0], port, arguments)
        )
        await stack.enter_async_context(_own_manager(places[1], patch, other, flags))
        yield Managers(real, ours, listed)


async def _define_widgets(api: Remote) -> None:
    """Defines a resource that can be scaled, and waits until it is served."""
    await api("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _WIDGETS)
    async with asyncio.timeout(_PATIENCE):
        while (await api("GET", "/apis/example.com/v1/widgets")).status != 200:
            await asyncio.sleep(_POLL)


@asynccontextmanager
async def _own_manager(place: Path, patch: str, port: int, flags: Sequence[str]) -> AsyncIterator[None]:
    write_kubeconfig(place / "kubeconfig", port)
    command = [
        *(sys.executable, "-m", "kubeskew", "controller-manager", "--no-leader-elect", "--time=real"),
        f"--kubeconfig={place / 'kubeconfig'}",
        f"--emulated-version={patch}",
        f"--service-account-private-key-file={place / 'sa.key'}",
    ]
    with (place / "manager.log").open("wb") as log:
        process = subprocess.Popen([*command, *flags], stdout=log, stderr=log, cwd=ROOT)
    try:
        yield
    finally:
        await _ended(process)
