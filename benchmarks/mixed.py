"""The rows of a large, mixed cluster that really runs: kubelets, drivers, device plugins and pods.

In contrast to `scheduling`, nothing here is an object only. All nodes are hosted by two kubelet processes,
one per version; each driver is one process for all of its nodes. Pods of all sorts come mixed.
"""

import asyncio
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.processes import Meter, memory_mb
from benchmarks.row import Row
from benchmarks.scheduling import PODS, create_all
from benchmarks.server import Server
from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.cluster import Cluster
from kubeskew.cluster.config import ClusterSpec, NodeSpec
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.processes import ExecutedProcesses
from kubeskew.cluster.state import State, StateDir

GPU, MIG, PLUGIN = "gpu.example.com", "mig.example.com", "example.com/plugged"
RESOURCE = "example.com/gpu"  # extended, of the class of GPU
NEWER, OLDER = Version(36), Version(35)
_GIVE_UP_SECONDS = 600.0
_DRA = "/apis/resource.k8s.io/v1"
_GPUS: Object = {"drivers": ({"name": GPU, "devices": 10},)}
# name, share of the nodes in percent, version of the kubelet, what the nodes have
_SORTS: tuple[tuple[str, int, Version, Object], ...] = (
    ("gpu", 40, NEWER, _GPUS),
    ("plugin", 20, NEWER, {"device_plugins": ({"resource": PLUGIN, "devices": 10},)}),
    ("mig", 10, NEWER, {"drivers": ({"name": MIG, "profile": "a100-mig", "devices": 1},)}),
    ("plain", 20, NEWER, {}),
    ("older", 10, OLDER, _GPUS),
)
_SET_UP = (
    "all real: 40 % of the nodes have a DRA driver with ten GPUs, 20 % a device plugin with ten devices, "
    f"10 % an A100 cut by MIG, 20 % nothing, 10 % ten GPUs and a kubelet of {OLDER}, not {NEWER}; "
    "two kubelet processes, three of drivers"
)
_LOAD = (
    "of five pods two have a claim from a template for a GPU, one a GPU as extended resource through DRA, "
    "one a plugin's device or (each fourth) a MIG partition, one nothing"
)


async def rows(nodes: int = 500, pods: int = 1000) -> AsyncIterator[Row]:
    """The start of the cluster, its cost at rest, and pods until all of them run."""
    async with _cluster(nodes) as (state, server, up):
        pids = {process.name: process.pid for process in state.processes.values()}
        yield up
        yield await _rest(pids, nodes)
        await create_all(server, _classes())
        meter, started = Meter(pids), time.perf_counter()
        running = asyncio.create_task(_all_run(server, pods))
        await create_all(server, [(PODS, _pod(number)) for number in range(pods)])
        async with asyncio.timeout(_GIVE_UP_SECONDS):
            await running
        seconds = time.perf_counter() - started
        costs = ", ".join(
            f"{name} {cpu / pods * 1000:.1f} ms" for name, cpu in _by_kind(meter.read()).items()
        )
        measured = f"{pods / seconds:.0f} pods/s ({seconds:.0f} s); CPU per pod {costs}"
        yield Row(f"mixed cluster, {nodes} nodes: {pods:,} pods until Running", "—", "—", measured, _LOAD)


async def _rest(pids: Mapping[str, int], nodes: int, seconds: float = 30.0) -> Row:
    """Measures what the cluster takes when nothing happens: heartbeats, and memory."""
    await asyncio.sleep(15)  # kubelets look for plugins more often at first
    meter = Meter(pids)
    await asyncio.sleep(seconds)
    used = ", ".join(f"{name} {cpu / seconds:.1%}" for name, cpu in _by_kind(meter.read()).items())
    memory = _by_kind({name: memory_mb(pid) for name, pid in pids.items()})
    sizes = ", ".join(f"{name} {size:.0f} MB" for name, size in memory.items())
    return Row(f"mixed cluster, {nodes} nodes at rest: of a core, and memory", "—", "—", f"{used}; {sizes}")


def _by_kind(values: Mapping[str, float]) -> dict[str, float]:
    """Summed up over the processes of a kind: `kubelet-1` and `kubelet-2`, `driver/…`."""
    sums: defaultdict[str, float] = defaultdict(float)
    for name, value in values.items():
        sums[name.partition("/")[0].rstrip("-0123456789")] += value
    return dict(sums)


@asynccontextmanager
async def _cluster(nodes: int) -> AsyncIterator[tuple[State, Server, Row]]:
    with tempfile.TemporaryDirectory(prefix="kubeskew-bench-") as name:
        directory = StateDir(Path(name) / "state")
        cluster = Cluster(directory, Platform(SystemClock(), ExecutedProcesses()), lambda _: None)
        started = time.perf_counter()
        try:
            await cluster.up(_spec(nodes))
            seconds = time.perf_counter() - started
            state = directory.load()
            used = Meter({p.name: p.pid for p in state.processes.values()}).total()
            costs = ", ".join(f"{kind} {cpu / nodes * 1000:.1f} ms" for kind, cpu in _by_kind(used).items())
            measured = f"{seconds:.1f} s; CPU per node {costs}"
            row = Row(f"`kubeskew up`, mixed cluster of {nodes} nodes", "—", "—", measured, _SET_UP)
            api = state.processes["apiserver"]
            token = directory.token.read_text().strip()
            yield state, Server(api.port, token, directory.ca, api.pid, 0.0), row
        finally:
            await cluster.down(purge=True)


def _spec(count: int) -> ClusterSpec:
    nodes: list[NodeSpec] = []
    overrides: dict[str, Object] = {}
    for sort, percent, version, has in _SORTS:
        for number in range(count * percent // 100):
            nodes.append(NodeSpec(f"{sort}-{number:03}", **has))
            overrides[f"kubelet/{nodes[-1].name}"] = {"version": version}
    gates = {"DRAExtendedResource": True, "DRAPartitionableDevices": True}
    return ClusterSpec(version=NEWER, gates=gates, nodes=tuple(nodes), overrides=overrides)


def _classes() -> list[tuple[str, Object]]:
    """Each class of a driver comes with a template for claims."""
    objects: list[tuple[str, Object]] = []
    for name, cel, extended in (
        ("gpu", f"device.driver == '{GPU}'", {"extendedResourceName": RESOURCE}),
        ("mig", f"device.driver == '{MIG}' && device.attributes['{MIG}'].profile == '1g.5gb'", {}),
    ):
        spec = {"selectors": [{"cel": {"expression": cel}}], **extended}
        request = {"name": "device", "exactly": {"deviceClassName": name}}
        template = {"spec": {"devices": {"requests": [request]}}}
        objects += [
            (f"{_DRA}/deviceclasses", {"metadata": {"name": name}, "spec": spec}),
            (
                f"{_DRA}/namespaces/default/resourceclaimtemplates",
                {"metadata": {"name": name}, "spec": template},
            ),
        ]
    return objects


def _pod(number: int) -> Object:
    resources: Object = {"requests": {"cpu": "10m"}}
    template = ""
    match number % 5:
        case 0 | 1:
            template = "gpu"
        case 2:
            resources = {"limits": {RESOURCE: "1"}}
        case 3 if number % 4 == 0:
            template = "mig"
        case 3:
            resources = {"limits": {PLUGIN: "1"}}
    container: Object = {"name": "c", "image": "registry.example.com/app:1.0", "resources": resources}
    spec: Object = {"containers": [container]}
    if template:
        resources["claims"] = [{"name": "device"}]
        spec["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": template}]
    return {"metadata": {"name": f"p-{number}"}, "spec": spec}


async def _all_run(server: Server, pods: int) -> None:
    """Watches until `pods` pods run."""
    running: set[str] = set()
    async with server.connection() as connection:
        await connection.watch(f"{PODS}?watch=true")
        while len(running) < pods:
            pod = json.loads(await connection.next_line())["object"]
            if pod["status"].get("phase") == "Running":
                running.add(pod["metadata"]["name"])
            elif pod["status"].get("phase") == "Failed":
                raise RuntimeError(f"{pod['metadata']['name']}: {pod['status'].get('message')}")
