"""The supervisor keeps its promises for a cluster that a test begins itself: these run next to each other."""

import json
import os

import pytest
from asking import CONFIG_MAPS, Local, config_map, crash, hold_port

pytestmark = [pytest.mark.cluster]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@pytest.mark.slow
def test_a_crash_of_the_machine_loses_nothing(fresh: Local):
    """After SIGKILL of everything, the pids being others' by now, `up` has the same data and port."""
    fresh.run("up", "--nodes", "1")
    fresh.create(CONFIG_MAPS, config_map("kept"))
    port = fresh.port()
    for component in ("kubelet", "scheduler", "controller-manager"):
        fresh.run("kill", component)
    assert fresh.states() == {
        "apiserver": "Ready",
        "controller-manager": "Killed",
        "scheduler": "Killed",
        "kubelet/node-1": "Killed",
    }
    # the API server alone serves, and has what a cluster begins with
    namespaces = {item["metadata"]["name"] for item in fresh.get("/api/v1/namespaces")["items"]}
    assert namespaces == {"default", "kube-node-lease", "kube-public", "kube-system"}
    fresh.create(CONFIG_MAPS, config_map("alone"))
    for lease in fresh.get(LEASES)["items"]:  # their holders are dead: do not wait for the leases to end
        fresh.ask("DELETE", f"{LEASES}/{lease['metadata']['name']}")
    crash(fresh)
    assert fresh.states()["apiserver"] == "Ended"
    record = fresh.record()
    for process in record["processes"]:
        process["pid"] = os.getpid()  # a recycled pid: it must not be taken for ours, nor be hurt
    (fresh.state / "state.json").write_text(json.dumps(record))

    fresh.run("up")

    assert fresh.port() == port
    names = {item["metadata"]["name"] for item in fresh.get(CONFIG_MAPS)["items"]}
    assert names >= {"kept", "alone"}
    assert set(fresh.states().values()) == {"Ready"}
    assert list(fresh.timeline()).count(("scheduler", "killed")) == 1


def test_a_port_that_is_taken_is_reported_before_anything_is_written(fresh: Local):
    """`--port` of another process is wrong usage, and leaves no directory."""
    with hold_port() as listener:
        text = fresh.refused("up", "--port", str(listener.getsockname()[1]))
    assert "is in use by another process: choose another with --port" in text
    assert not fresh.state.exists()
