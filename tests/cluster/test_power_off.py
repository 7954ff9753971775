"""The power goes: every process of a cluster is killed, in some order, and `up` goes on where it was."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from asking import Local, config_map, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.xdist_group("power-off")]

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
ORDERS = {
    "the server first": ["apiserver", "controller-manager", "scheduler", "kubelet-1"],
    "the server last": ["kubelet-1", "scheduler", "controller-manager", "apiserver"],
    "the kubelet in the middle": ["scheduler", "kubelet-1", "apiserver", "controller-manager"],
}


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """A cluster of two nodes."""
    made = Local(tmp_path / "state")
    try:
        made.run("up", "--nodes", "2")
        yield made
    finally:
        made.run("down", "--purge")


class Writer(threading.Thread):
    """Writes until the server is gone; `acknowledged` are the names that were answered with 201."""

    def __init__(self, local: Local, prefix: str) -> None:
        super().__init__()
        self.local, self.prefix = local, prefix
        self.acknowledged: list[str] = []

    def has_written(self, least: int) -> bool:
        return len(self.acknowledged) >= least

    def run(self) -> None:
        with suppress(OSError, ValueError):  # the connection breaks off, in the middle of an answer perhaps
            for number in count():
                name = f"{self.prefix}-{number}"
                status, _ = self.local.ask("POST", MAPS, config_map(name))
                if status == 201:
                    self.acknowledged.append(name)


def running(local: Local) -> dict[str, str]:
    """The pods of the deployment if all run: name → when its container started."""
    pods = [pod for pod in local.get(PODS)["items"] if not pod["metadata"].get("deletionTimestamp")]
    states = {pod["metadata"]["name"]: pod["status"].get("containerStatuses", [{}])[0] for pod in pods}
    if len(states) != 3 or not all(state.get("ready") for state in states.values()):
        return {}
    return {name: state["state"]["running"]["startedAt"] for name, state in states.items()}


def deployment() -> dict[str, Any]:
    labels = {"app": "a"}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


@pytest.mark.timeout(400)
def test_everything_is_picked_up_again(local: Local) -> None:
    """No acknowledged write is lost, containers run on, controllers do their work, no matter what died
    first."""
    local.create(DEPLOYMENTS, deployment())
    eventually(lambda: bool(running(local)))
    begun = running(local)
    written: list[str] = []
    for turn, order in enumerate(ORDERS.values()):
        writer = Writer(local, f"t{turn}")
        writer.start()
        eventually(partial(writer.has_written, 20))
        pids = {process["name"]: process["pid"] for process in local.record()["processes"]}
        assert set(order) == set(pids)
        for name in order:
            os.kill(pids[name], signal.SIGKILL)
        writer.join()
        written += writer.acknowledged
        eventually(lambda: set(local.states().values()) == {"Ended"})
        local.run("up")
        assert set(local.states().values()) == {"Ready"}
        stored = {obj["metadata"]["name"] for obj in local.get(MAPS)["items"]}
        assert set(written) <= stored
        eventually(lambda: running(local) == begun)
    name = next(iter(begun))
    assert local.ask("DELETE", f"{PODS}/{name}")[0] == 200
    eventually(lambda: bool(running(local)) and name not in running(local))
