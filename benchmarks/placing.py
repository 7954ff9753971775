"""The scheduling cycle alone, without API: `python -m benchmarks.placing [--extended] [--profile]`.

Milliseconds of CPU per pod, so that a busy machine gives nearly the same number as an idle one.
"""

import argparse
import asyncio
import cProfile
import pstats
import time
from types import SimpleNamespace
from typing import cast

from prometheus_client import CollectorRegistry

from benchmarks.scheduling import CLAIMS, EXTENDED, Load, cluster
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import DEFAULT_VERSION
from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.scheduler import SchedulerService


def _service(load: Load) -> SchedulerService:
    """The scheduler knows the cluster and has no server."""
    gates = FeatureGates(DEFAULT_VERSION, {"DRAExtendedResource": True})
    environment = Environment(DEFAULT_VERSION, gates, SystemClock(), SeededEntropy(7))
    service = SchedulerService(environment, cast("APIClient", SimpleNamespace()), CollectorRegistry())
    for path, obj in cluster(load):
        match path.rpartition("/")[2]:
            case "nodes":
                service.cache.set_node(obj)
            case "resourceslices":
                service.dynamic.slices.set_slice(obj)
            case "deviceclasses":
                service.dynamic.classes.set_class(obj)
                if service.dynamic.extended is not None:
                    service.dynamic.extended.set_class(None, obj)
    return service


def _pod(load: Load, service: SchedulerService, number: int) -> PodInfo:
    """Pods come with their claim, if they have one, as the scheduler receives them."""
    pod = load.pod(number)
    pod["metadata"] |= {"namespace": "default", "uid": f"pod-{number}"}
    if "resourceClaims" in pod["spec"]:
        name = f"claim-{number}"
        pod["status"] = {"resourceClaimStatuses": [{"name": "device", "resourceClaimName": name}]}
        exactly = {"deviceClassName": "test-class", "allocationMode": "ExactCount", "count": 1}
        owner = {"uid": f"pod-{number}", "controller": True}
        metadata = {"namespace": "default", "name": name, "uid": name, "ownerReferences": [owner]}
        requests = [{"name": "device", "exactly": exactly}]
        service.dynamic.claims.set_claim({"metadata": metadata, "spec": {"devices": {"requests": requests}}})
    return PodInfo(pod)


async def place(load: Load, service: SchedulerService, pods: list[PodInfo]) -> None:
    (finder,), (profile,) = service.scheduler.finders.values(), service.scheduler.profiles.values()
    for pod in pods:
        state = CycleState()
        node = finder.find(state, pod)
        if not isinstance(node, str):
            raise RuntimeError(f"{load.what}: {node}")
        service.cache.assume(pod, node)
        status = await profile.run_reserves(state, pod, node)
        if not status.is_success:
            raise RuntimeError(status.message)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extended", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument(
        "--pods", type=int, default=5000, help="in five rounds, on 500 nodes with ten devices"
    )
    return parser.parse_args()


async def main(options: argparse.Namespace) -> None:
    """Runs inside a loop, as the scheduler's clock is the loop's; nothing waits."""
    load = EXTENDED if options.extended else CLAIMS
    service, size = _service(load), options.pods // 5
    profile = cProfile.Profile()
    for first in range(0, size * 5, size):
        pods = [_pod(load, service, number) for number in range(first, first + size)]
        before = time.process_time()
        if options.profile:
            profile.runcall(place, load, service, pods)
        else:
            await place(load, service, pods)
        used = time.process_time() - before
        print(f"pods {first:5} to {first + size:5}: {used / size * 1000:.2f} ms of CPU per pod", flush=True)
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    asyncio.run(main(_options()))
