"""Forks and rewinds of a cluster of real processes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import CONFIG_MAPS, Local, config_map, eventually

from kubeskew.cluster.kubelet_files import kubelet_files_at
from kubeskew.cluster.state import StateDir

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

FILE = """
version: "1.35"
nodes:
- name: gpu-node
  drivers: [{name: gpu.example.com, devices: 2}]
"""
RESOURCES = "/apis/resource.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
}
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "one"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "containers": [{"name": "c", "image": "x", "resources": {"claims": [{"name": "g"}]}}],
        "resourceClaims": [{"name": "g", "resourceClaimName": "one"}],
    },
}


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """A cluster at 1.35 whose pod has a device."""
    (tmp_path / "cluster.yaml").write_text(FILE)
    local = Local(tmp_path / "state")
    local.run("up", "--config", str(tmp_path / "cluster.yaml"))
    local.create(f"{RESOURCES}/deviceclasses", CLASS)
    local.create(f"{RESOURCES}/namespaces/default/resourceclaims", CLAIM)
    local.create(PODS, POD)
    eventually(lambda: is_ready(local))
    yield local
    local.run("down", "--purge")


def is_ready(local: Local, name: str = "p") -> bool:
    status, pod = local.ask("GET", f"{PODS}/{name}")
    conditions = pod["status"].get("conditions", []) if status == 200 else []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def containers(local: Local) -> list[Any]:
    pod = local.get(f"{PODS}/p")
    statuses = pod["status"]["containerStatuses"]
    return [(each["containerID"], each["restartCount"], each["state"]) for each in statuses]


def revision_of(local: Local) -> int:
    revision: int = json.loads(local.run("events", "-o", "json").stdout)[-1]["revision"]
    return revision


def prepared(local: Local) -> str:
    return (local.state / "kubelet/gpu-node/kubelet/dra_manager_state").read_text()


@pytest.mark.slow
def test_a_cluster_is_branched_and_taken_back(local: Local, tmp_path: Path) -> None:
    """In a fork and after a rewind everything is as it was: versions, the pod's container, its device."""
    before, held = containers(local), prepared(local)
    at = revision_of(local)
    local.run("upgrade", "--to", "1.36")
    assert local.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0")[0] == 200
    local.create(CONFIG_MAPS, config_map("later"))
    newest, versions = revision_of(local), local.versions()

    fork = Local(tmp_path / "fork")
    local.run("fork", "--at", str(at), str(fork.state))
    assert prepared(fork) == held
    fork.run("up")
    try:
        eventually(lambda: is_ready(fork))
        assert containers(fork) == before
        assert {*fork.versions().values()} == {"1.35"}
        assert fork.get("/version")["minor"] == "35"
        assert fork.ask("GET", f"{CONFIG_MAPS}/later")[0] == 404
        assert [node["metadata"]["name"] for node in fork.get("/api/v1/nodes")["items"]] == ["gpu-node"]
        assert local.get(f"{CONFIG_MAPS}/later")["data"] == {"a": "b"}
        assert (local.versions(), local.ask("GET", f"{PODS}/p")[0]) == (versions, 404)
        fork.run("replay")
    finally:
        fork.run("down", "--purge")

    local.run("rewind", "--to", str(at))
    assert {*local.states().values()} == {"Stopped"}
    assert prepared(local) == held
    local.run("up")
    eventually(lambda: is_ready(local))
    assert containers(local) == before
    assert {*local.versions().values()} == {"1.35"}
    assert local.ask("GET", f"{CONFIG_MAPS}/later")[0] == 404
    assert ("store", "rewound") in local.timeline()
    local.run("replay")
    for query in ("", "&resourceVersionMatch=Exact"):
        status, answer = local.ask("GET", f"{CONFIG_MAPS}?resourceVersion={newest + 1000}{query}")
        assert (status, answer["reason"]) == (504, "Timeout")
        assert f"Too large resource version: {newest + 1000}" in answer["message"]


def on_disk(local: Local) -> dict[str, bytes]:
    """Returns the files of the node as they are, by path, without the journal of them."""
    node = local.state / "kubelet" / "gpu-node"
    paths = [path.relative_to(node) for path in node.rglob("*") if path.is_file()]
    return {path.as_posix(): (node / path).read_bytes() for path in paths if path.parts[0] != "journal"}


@pytest.mark.slow
def test_the_journal_of_files_outlives_kills(local: Local) -> None:
    """However often kubelet and driver are killed while pods come and go, the journal has the files as they
    are, and a cluster that is taken back to its newest revision has them, too."""
    for number, killed in enumerate(("kubelet/gpu-node", "driver/gpu.example.com") * 2):
        added = {**POD, "metadata": {"name": f"p-{number}"}}
        local.create(PODS, added)
        local.run("kill", killed)
        if number:
            assert local.ask("DELETE", f"{PODS}/p-{number - 1}?gracePeriodSeconds=0")[0] == 200
        local.run("restart", killed)
        eventually(lambda name=f"p-{number}": is_ready(local, name))
    local.run("kill", "kubelet/gpu-node")
    local.run("down")
    newest, files = revision_of(local), on_disk(local)
    known = kubelet_files_at(StateDir(local.state), newest)["gpu-node"]
    assert {path: content for path, content in known.items() if not path.endswith("/")} == files
    assert "kubelet/dra_manager_state" in files
    local.run("rewind", "--to", str(newest))
    assert on_disk(local) == files
