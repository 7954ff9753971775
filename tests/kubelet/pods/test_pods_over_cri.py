"""Pods whose kubelet runs them by CRI v1, from their object to their status; containers are acted."""

import json

import pytest
from remote_node import ServedRuntime

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.kubelet.device_managers import ContainerDevices
from kubeskew.kubelet.node.config import NodeConfig
from kubeskew.kubelet.pods.kuberuntime import ContainerStarter


@pytest.fixture
def clock():
    return SystemClock()


@pytest.fixture
async def served(tmp_path, monkeypatch):
    monkeypatch.setattr("kubeskew.kubelet.containers.remote.runtime._RELIST_SECONDS", 0.05)
    found = ServedRuntime(tmp_path / "machine")
    found.directory.mkdir()
    await found.start()
    yield found
    await found.close()


@pytest.fixture
async def machine(node, served):
    """A node whose container runtime is another program's."""
    node.config = NodeConfig(
        "node-1", capacity=node.config.capacity, runtime="cri", runtime_endpoint=served.endpoint
    )
    await node.start()
    assert node.agent.failure == ""
    yield node
    await node.stop()


def container(name, *command, **fields):
    return {"name": name, "image": "busybox:1", "command": [*command], **fields}


async def test_a_pod_over_a_restart_of_its_kubelet(machine, served):
    """An init container ends, the others run; the next kubelet takes them up, and ends them when the pod is
    deleted."""
    await machine.create(
        initContainers=[container("first", "true")],
        containers=[
            container("main", "sleep", "1000", livenessProbe={"exec": {"command": ["true"]}}),
        ],
        terminationGracePeriodSeconds=1,
    )
    pod = await machine.running()
    [first], [before] = pod["status"]["initContainerStatuses"], pod["status"]["containerStatuses"]
    assert first["state"]["terminated"]["reason"] == "Completed"
    assert before["containerID"].startswith("containerd://")
    node = await machine.node()
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"] == "containerd://2.1.0+kubeskew"
    await machine.stop()
    await machine.start(version="1.35")
    after = (await machine.running())["status"]["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
    await machine.delete()
    await machine.gone()
    await machine.until(lambda: not served.acted.sandboxes())


async def test_devices_are_passed_by_name(machine, served, monkeypatch):
    """CDI devices are the runtime's to resolve: a container waits until the runtime knows its device."""
    asked = ContainerDevices(cdi_ids=["example.com/gpu=1"])
    monkeypatch.setattr(machine.agent._services.devices, "for_container", lambda _pod, _spec: asked)
    monkeypatch.setattr(ContainerStarter._hold_back, "__defaults__", (0.1,))  # seconds until the next try
    await machine.create(containers=[container("main", "sleep", "1000")])

    def is_refused(status):
        [found] = status.get("containerStatuses") or [{}]
        return (found.get("state") or {}).get("waiting", {}).get("reason") == "CreateContainerError"

    pod = await machine.until_pod(is_refused)
    message = pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    assert "CDI device injection failed: unresolvable CDI devices example.com/gpu=1" in message
    edits = {"env": ["GPU=one"]}
    spec = {
        "cdiVersion": "0.6.0",
        "kind": "example.com/gpu",
        "devices": [{"name": "1", "containerEdits": edits}],
    }
    (served.directory / "cdi").mkdir()
    (served.directory / "cdi" / "gpu.json").write_text(json.dumps(spec))
    await machine.running()
    [sandbox] = served.acted.sandboxes()
    found = sandbox.latest("main")
    assert (found.cdi_devices, found.env["GPU"]) == (["example.com/gpu=1"], "one")
    [shown] = machine.agent.containers()
    assert shown["cdiDevices"] == ["example.com/gpu=1"]


async def test_an_endpoint_that_is_gone(node, tmp_path):
    """A kubelet whose runtime does not answer ends with upstream's words."""
    node.config = NodeConfig(
        "node-1", capacity=node.config.capacity, runtime="cri", runtime_endpoint="unix:///none/x.sock"
    )
    await node.start()
    await node.until(lambda: node.agent.failure)
    assert node.agent.failure.startswith(
        'validate service connection: validate CRI v1 runtime API for endpoint "unix:///none/x.sock": rpc'
    )
