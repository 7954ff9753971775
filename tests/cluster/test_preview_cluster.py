"""A cluster of a preview release: pods run in it, it upgrades to the next release and comes back."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import Local, eventually

pytestmark = [pytest.mark.kubectl, pytest.mark.cluster, pytest.mark.xdist_group("preview")]

RELEASE = "1.25+kep3063"
CLAIMS = "/apis/cdi.k8s.io/v1alpha1/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
MANIFESTS = """
apiVersion: cdi.k8s.io/v1alpha1
kind: ResourceClass
metadata: {name: acme-gpu}
driverName: gpu.acme.com
parameters: {initCommand: [/usr/local/bin/acme-gpu-init, --cluster, my-cluster]}
---
apiVersion: cdi.k8s.io/v1alpha1
kind: ResourceClaim
metadata: {name: gpu}
spec: {resourceClassName: acme-gpu, parameters: {memory: 2Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: device-consumer}
spec:
  resourceClaims:
  - name: gpu
    template: {spec: {resourceClassName: acme-gpu, parameters: {memory: 2Gi}}}
  containers:
  - {name: workload, image: my-app, resources: {requests: {cpu: 250m}, claims: [gpu]}}
  - {name: monitor, image: my-app, resources: {claims: [gpu]}}
---
apiVersion: v1
kind: Pod
metadata: {name: ordinary}
spec: {containers: [{name: c, image: i}]}
"""


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """A cluster at the preview release."""
    found = Local(tmp_path / "state")
    try:
        found.run("up", "--version", RELEASE, "--nodes", "1")
        yield found
    finally:
        found.run("down", "--purge")


def spec_and_status(local: Local, name: str) -> tuple[Any, Any]:
    pod = local.get(f"{PODS}/{name}")
    return pod["spec"], pod["status"]


def groups(local: Local) -> set[str]:
    return {group["name"] for group in local.get("/apis")["groups"]}


def is_running(local: Local, name: str) -> bool:
    phase: str = spec_and_status(local, name)[1].get("phase", "")
    return phase == "Running"


@pytest.mark.slow
def test_up_and_down_a_minor(local: Local, find_kubectl: Callable[[str], Path]) -> None:
    """Pods run, old and new kubectl show claims; 1.26 does not serve these, a downgrade brings them back."""

    def kubectl(version: str, *arguments: str) -> str:
        command = [str(find_kubectl(version)), "--kubeconfig", str(local.state / "kubeconfig"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, input=MANIFESTS, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    version = local.get("/version")
    assert (version["minor"], version["gitVersion"]) == ("25", "v1.25.0+kep3063")
    assert "pod/device-consumer created" in kubectl("1.36", "apply", "-f", "-")
    for release in ("1.20", "1.36"):
        rows = kubectl(release, "get", "resourceclaims,resourceclasses").split()
        assert {"acme-gpu", "Delayed", "Pending", "gpu.acme.com"} <= set(rows)
    assert "allocationMode" in kubectl("1.36", "explain", "resourceclaims.spec")
    assert "default/gpu" in local.run("events", "resourceclaims.cdi.k8s.io").stdout
    eventually(lambda: is_running(local, "ordinary"))
    started = spec_and_status(local, "ordinary")[1]["containerStatuses"]

    assert "more than 1 minor older than the API server 1.27" in local.refused("upgrade", "--to", "1.27")
    local.run("upgrade", "--to", "1.26")

    assert set(local.versions().values()) == {"1.26"}
    assert "cdi.k8s.io" not in groups(local)
    assert spec_and_status(local, "ordinary")[1]["containerStatuses"] == started
    spec, _ = spec_and_status(local, "device-consumer")
    assert spec["resourceClaims"] == [{"name": "gpu", "source": {}}]
    assert [container["resources"] for container in spec["containers"]] == [{"requests": {"cpu": "250m"}}, {}]

    local.run("downgrade", "--to", RELEASE)

    assert set(local.versions().values()) == {RELEASE}
    assert local.get(f"{CLAIMS}/gpu")["spec"]["parameters"] == {"memory": "2Gi"}
    local.run("gates", "DynamicResourceAllocation=false")
    assert "cdi.k8s.io" not in groups(local)
