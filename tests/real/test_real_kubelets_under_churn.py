"""Four real kubelets under churn: what they use stays level, and nothing of them is left; it needs root."""

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from asking import Local, eventually

log = logging.getLogger(__name__)
pytestmark = [pytest.mark.real, pytest.mark.cluster, pytest.mark.timeout(1200)]

SECONDS = float(os.environ.get("KUBESKEW_CHURN_SECONDS", "60"))
NODES = [f"node-{number}" for number in range(1, 5)]
CONFIG = {
    "version": "1.36",
    "nodes": [
        {
            "name": name,
            "drivers": [{"name": "gpu.example.com", "devices": 4}],
            "devicePlugins": [{"resource": "example.com/nic", "devices": 4}],
        }
        for name in NODES
    ],
}
RESOURCES = "/apis/resource.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
}
POD = {
    "terminationGracePeriodSeconds": 1,
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    "containers": [
        {
            "name": "c",
            "image": "busybox",
            "command": ["sleep", "infinity"],
            "resources": {"claims": [{"name": "gpu"}], "limits": {"example.com/nic": "1"}},
        }
    ],
}


def pod(number: int, node: str) -> dict[str, Any]:
    """A pod with a claim and a plugin's device for the node."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p-{number}-{node}"},
        "spec": {**POD, "nodeSelector": {"kubernetes.io/hostname": node}},
    }


def use(pid: int) -> tuple[int, int]:
    """The resident memory of a process in MB, and its open files."""
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(resident) // 1024, len(list(Path(f"/proc/{pid}/fd").iterdir()))


def kubelets(directory: Path) -> list[int]:
    """The processes of kubelets with files of this cluster."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = entry.read_bytes()
            if line.split(b"\0")[0].endswith(b"/kubelet") and str(directory).encode() in line:
                found.append(int(entry.parent.name))
    return sorted(found)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short one, as paths of sockets are."""
    path = Path(tempfile.mkdtemp(prefix="ks-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_four_kubelets_do_not_grow(binaries: Path, directory: Path) -> None:
    """Pods with claims and devices come and go, kubelets restart; memory and open files stay within bounds,
    and `down` leaves neither a process, nor a mount, nor a cgroup."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    mounts, groups = Path("/proc/mounts").read_text(), cgroups()
    (directory / "cluster.yaml").write_text(yaml.safe_dump(CONFIG))
    local = Local(directory / "state")
    config = str(directory / "cluster.yaml")
    local.run("up", "--config", config, "--binaries", str(binaries), "--real", "kubelet")
    try:
        local.create(f"{RESOURCES}/deviceclasses", CLASS)
        local.create(f"{RESOURCES}/namespaces/default/resourceclaimtemplates", TEMPLATE)
        churned(local, 0)
        first = {pid: use(pid) for pid in kubelets(directory)}
        began, rounds = time.monotonic(), 0
        while time.monotonic() - began < SECONDS:
            rounds += 1
            churned(local, rounds)
            if rounds % 20 == 0:
                local.run("restart", f"kubelet/{NODES[rounds // 20 % 4]}")
        last = {pid: use(pid) for pid in kubelets(directory)}
    finally:
        local.run("down")
    log.info(
        "%d pods: MB and files at first %s, at last %s",
        rounds * len(NODES),
        [*first.values()],
        [*last.values()],
    )
    assert len(first) == len(last) == len(NODES)
    assert max(resident for resident, _ in last.values()) < 200
    assert max(files for _, files in last.values()) <= max(files for _, files in first.values()) + 10
    assert not kubelets(directory)
    assert Path("/proc/mounts").read_text() == mounts
    assert cgroups() == groups


def cgroups() -> set[str]:
    return {place for place, _, _ in os.walk("/sys/fs/cgroup") if "kubepods" in place}


def churned(local: Local, number: int) -> None:
    """Has a pod on each node run and go."""
    for node in NODES:
        local.create(PODS, pod(number, node))
    eventually(lambda: [each["status"].get("phase") for each in there(local)] == ["Running"] * len(NODES))
    for node in NODES:
        local.ask("DELETE", f"{PODS}/p-{number}-{node}")
    eventually(lambda: not there(local))


def there(local: Local) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = local.get(PODS)["items"]
    return found
