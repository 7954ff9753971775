"""The driver through an upgrade of the cluster and back."""

import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("driver.py")
NODE = "gpu-node"
RESOURCE = "resource.k8s.io/v1"
CLASS = {
    "apiVersion": RESOURCE,
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
}
TEMPLATE = {
    "apiVersion": RESOURCE,
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one"},
    "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
}


@pytest.fixture(scope="session")
def kubeskew_config():
    """The cluster of all tests."""
    return {"version": "1.35", "nodes": [{"name": NODE}]}


@pytest.fixture(scope="session")
def kubeskew_setup():
    """Makes the class of devices in a new cluster."""
    return lambda cluster: cluster.client.create(CLASS)


@pytest.fixture
def driver(kubeskew_cluster, tmp_path):
    """Runs the driver as a program of its own on the node, and returns what it has said so far."""
    node = kubeskew_cluster.node(NODE)
    log = tmp_path / "driver.log"
    with log.open("w") as output:
        command = [sys.executable, str(DRIVER), NODE, str(node.registry), str(node.plugins), str(node.cdi)]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    kubeskew_cluster.eventually(lambda: "registered" in log.read_text())
    yield lambda: log.read_text().splitlines()
    process.terminate()
    assert process.wait() == 0, log.read_text()


def pod(name, command):
    container = {
        "name": "c",
        "image": "busybox",
        "command": ["sh", "-c", command],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    spec = {"containers": [container], "resourceClaims": claims, "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_devices_are_kept_through_an_upgrade_and_back(kubeskew_cluster, driver):
    """A pod keeps its device over the moves, another one gets the other, and both come back."""
    cluster = kubeskew_cluster
    cluster.client.create(TEMPLATE)

    def status(name):
        return cluster.client.get("v1", "Pod", name)["status"]

    def run_of(name):
        (container,) = status(name)["containerStatuses"]
        return container["containerID"], container["restartCount"]

    cluster.client.create(pod("long", "sleep 3600"))
    cluster.eventually(lambda: status("long")["phase"] == "Running")
    before = run_of("long")

    for move, version in ((cluster.upgrade, "1.36"), (cluster.downgrade, "1.35")):
        move(version)
        assert run_of("long") == before
        name = f"short-{version.replace('.', '-')}"
        cluster.client.create(pod(name, "echo $GPUS"))
        cluster.eventually(lambda name=name: status(name)["phase"] == "Succeeded")
        assert cluster.kubectl("logs", name) in {"gpu-0\n", "gpu-1\n"}

    prepared = [line.split()[1] for line in driver() if line.startswith("prepare ")]
    assert sum(name.startswith("long-") for name in prepared) == 1
    for each in cluster.client.list("v1", "Pod"):
        cluster.client.delete("v1", "Pod", each["metadata"]["name"])
    cluster.eventually(lambda: cluster.client.list(RESOURCE, "ResourceClaim") == [])
    assert [*cluster.node(NODE).cdi.glob("gpu.example.com-*")] == []
    cluster.check()
