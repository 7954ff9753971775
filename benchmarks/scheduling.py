"""The scheduler's rows: pods per second over API server, scheduler and claim controller, on fake nodes.

As in upstream's scheduler_perf (test/integration/scheduler_perf/dra, 1.36), nodes and slices are objects
without kubelets: 500 nodes with ten devices each; half of the pods are there before the measuring begins.
Unlike there, all are processes of their own that meet over TLS; only the controller for claims runs.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.connection import Connection
from benchmarks.processes import Meter
from benchmarks.row import Row
from benchmarks.server import Processes, Server, running_processes
from kubeskew.apimachinery.objects import Object

DRIVER, RESOURCE = "test-driver.cdi.k8s.io", "example.com/device"
DEVICES_PER_NODE = 10
PODS = "/api/v1/namespaces/default/pods"
DRA = "/apis/resource.k8s.io/v1"
_CREATORS = 16
_GIVE_UP_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Load:
    """`pods` are measured, after `before` have been scheduled; `spec` is what is particular in their spec."""

    what: str
    real: str
    goal: str
    spec: Object
    container: Object
    nodes: int = 500
    before: int = 2500
    pods: int = 2500

    def pod(self, number: int) -> Object:
        container = {"name": "c", "image": "registry.example.com/app:1.0", **self.container}
        spec = {"automountServiceAccountToken": False, **self.spec, "containers": [container]}
        return {"metadata": {"name": f"p-{number}"}, "spec": spec}


CLAIMS = Load(
    "scheduler, DRA claims from templates",
    "threshold 40-56 pods/s",
    "≥ 100 pods/s",
    {"resourceClaims": [{"name": "device", "resourceClaimTemplateName": "one"}]},
    {"resources": {"claims": [{"name": "device"}]}},
)
EXTENDED = Load(
    "scheduler, extended resources through DRA",
    "threshold 195 pods/s",
    "≥ 200 pods/s",
    {},
    {"resources": {"requests": {RESOURCE: "1"}, "limits": {RESOURCE: "1"}}},
)
PLAIN = Load("scheduler, pods without devices", "—", "—", {}, {"resources": {"requests": {"cpu": "10m"}}})


async def schedule(load: Load) -> Row:
    """Pods per second from the first create to the last binding, and what each process spent on a pod."""
    arguments = {
        "apiserver": (),
        "scheduler": (),
        "controller-manager": ("--controllers=resourceclaim-controller",),
    }
    async with running_processes(arguments, {"DRAExtendedResource": True}) as processes:
        await create_all(processes.server, cluster(load))
        await _trust_nodes(processes, load)
        await _run(processes, load, 0, load.before)
        meter, started = (
            Meter({name: process.pid for name, process in processes.running.items()}),
            time.perf_counter(),
        )
        await _run(processes, load, load.before, load.before + load.pods)
        seconds = time.perf_counter() - started
        used = meter.read()
    return Row(
        f"{load.what}, {load.nodes} nodes / {load.before + load.pods:,} pods",
        load.real,
        load.goal,
        f"{load.pods / seconds:.0f} pods/s; CPU per pod {_costs(used, load.pods)}",
        f"nodes, each with a slice of {DEVICES_PER_NODE} devices, are objects without kubelets; API server, "
        f"scheduler and claim controller are processes; {load.before:,} pods are scheduled before",
    )


def _costs(used: Mapping[str, float], pods: int) -> str:
    """Milliseconds per pod, and the rate that two cores with nothing else to do would allow."""
    each = {name: seconds / pods * 1000 for name, seconds in used.items()}
    bound = min(1000 / max(each.values()), 2000 / sum(each.values()))
    return ", ".join(f"{name} {ms:.1f} ms" for name, ms in each.items()) + f" (allows {bound:.0f}/s)"


async def _run(processes: Processes, load: Load, start: int, end: int) -> None:
    """Creates the pods and waits until `end` pods are scheduled altogether."""
    pods = [(PODS, load.pod(number)) for number in range(start, end)]
    creating = asyncio.create_task(create_all(processes.server, pods))
    give_up = time.perf_counter() + _GIVE_UP_SECONDS
    while await _scheduled(processes.ports["scheduler"]) < end:
        if time.perf_counter() > give_up:
            raise TimeoutError(f"{load.what}: not all of {end} pods are scheduled")
        await asyncio.sleep(0.25)
    await creating


async def create_all(server: Server, objects: list[tuple[str, Object]]) -> None:
    """POSTs each object to its path, over several connections."""
    waiting = iter(objects)

    async def work(connection: Connection) -> None:
        for path, obj in waiting:
            status, answer = await connection.request("POST", path, json.dumps(obj).encode())
            if status != 201:
                raise RuntimeError(answer.decode())

    async def connected() -> None:
        async with server.connection() as connection:
            await work(connection)

    await asyncio.gather(*(connected() for _ in range(_CREATORS)))


async def _trust_nodes(processes: Processes, load: Load) -> None:
    """Takes away the taint of new nodes: no controller does it here."""
    async with processes.server.connection() as connection:
        for number in range(load.nodes):
            node = json.dumps(_node(number)).encode()
            status, answer = await connection.request("PUT", f"/api/v1/nodes/{_name(number)}", node)
            if status != 200:
                raise RuntimeError(answer.decode())


async def _scheduled(port: int) -> int:
    """Counts the pods that the scheduler has bound, by its metrics; 0 while it starts."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return 0
    writer.write(b"GET /metrics?name[]=scheduler_schedule_attempts_total HTTP/1.0\r\nHost: localhost\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    for line in text.splitlines():
        if line.startswith("scheduler_schedule_attempts_total") and 'result="scheduled"' in line:
            return int(float(line.rpartition(" ")[2]))
    return 0


def cluster(load: Load) -> list[tuple[str, Object]]:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    device_class: Object = {
        "metadata": {"name": "test-class"},
        "spec": {"selectors": [selector], "extendedResourceName": RESOURCE},
    }
    request = {"name": "device", "exactly": {"deviceClassName": "test-class"}}
    template: Object = {
        "metadata": {"name": "one"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    objects = [
        (f"{DRA}/deviceclasses", device_class),
        (f"{DRA}/namespaces/default/resourceclaimtemplates", template),
    ]
    for number in range(load.nodes):
        objects += [("/api/v1/nodes", _node(number)), (f"{DRA}/resourceslices", _slice(number))]
    return objects


def _name(number: int) -> str:
    return f"node-{number:04}"


def _node(number: int) -> Object:
    name = _name(number)
    room = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def _slice(number: int) -> Object:
    name = _name(number)
    return {
        "metadata": {"name": f"{name}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"device-{index}"} for index in range(DEVICES_PER_NODE)],
        },
    }
