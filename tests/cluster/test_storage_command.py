"""`kubeskew storage` over clusters of processes."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from asking import Local

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(200)]

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """A cluster without nodes at 1.34, which has a device class."""
    local = Local(tmp_path / "state")
    local.run("up", "--nodes", "0", "--version", "1.34")
    local.create(CLASSES, CLASS)
    yield local
    local.run("down", "--purge")


@pytest.mark.slow
def test_objects_are_written_again_once_and_reported_before_a_downgrade(local: Local) -> None:
    """A migration stores the class in 1.35's version, once; 1.33 could read it before and not after that."""
    found = json.loads(local.run("storage", "audit", "--for", "1.33", "-o", "json", code=1).stdout)
    assert [(each["name"], each["what"], each["storedAs"]) for each in found] == [
        ("gpu", "unserved", "resource.k8s.io/v1beta2")
    ]
    assert found[0]["fields"] == []
    assert local.run("storage", "audit", "--for", "1.35").stderr == "For an API server 1.35: nothing.\n"
    local.run("upgrade", "--to", "1.35", "--component", "apiserver")
    for rewritten in (1, 0):
        rows = json.loads(local.run("storage", "migrate", "deviceclasses", "-o", "json").stdout)
        assert rows == [
            {"resource": "deviceclasses.resource.k8s.io", "objects": 1, "rewritten": rewritten, "failed": []}
        ]
    text = local.run("storage", "audit", "--for", "1.33", code=1).stdout
    assert 'no kind "DeviceClass" is registered for version "resource.k8s.io/v1"' in text


def test_a_kubelet_refuses_what_the_audit_has_said(tmp_path: Path) -> None:
    """The audit reads the node's files, and the kubelet of that release says the same when it is started."""
    local = Local(tmp_path / "state")
    file = tmp_path / "cluster.json"
    cluster = {"version": "1.31", "nodes": [{"name": "a"}], "runtimeConfig": {"api/alpha": True}}
    file.write_text(json.dumps({**cluster, "featureGates": {"DynamicResourceAllocation": True}}))
    local.run("up", "--config", str(file))
    try:
        found = json.loads(local.run("storage", "audit", "--for", "1.30", "-o", "json", code=1).stdout)
        of_nodes = [each for each in found if each["resource"] == "nodes"]
        assert [(each["name"], each["what"], each["storedAs"]) for each in of_nodes] == [
            ("a", "undrained", "dra_manager_state"),
            ("a", "lost", "v1"),
        ]
        (refusal,) = of_nodes[0]["details"]
        assert of_nodes[1]["details"] == [
            "status.runtimeHandlers..features.userNamespaces: False",
        ]
        stopped = local.run("downgrade", "--to", "1.30", code=1).stderr
        assert f"the kubelet of a does not run: {refusal}\n" in stopped
        (failed,) = json.loads(local.run("events", "--verb", "failed", "-o", "json").stdout)
        assert failed["by"].startswith("kubelet/a 1.30 ")
        assert failed["by"].endswith(f": {refusal}")
        fork = Local(tmp_path / "fork")
        local.run("fork", "--at", str(failed["revision"]), str(fork.state))
        assert fork.versions()["kubelet/a"] == "1.30"

        kept = local.state / "kubelet" / "a" / "kubelet"
        (kept / "dra_manager_state").unlink()
        local.run("restart", "kubelet/a")
        left = json.loads(local.run("storage", "audit", "--for", "1.30", "-o", "json", code=1).stdout)
        assert [each["what"] for each in left if each["resource"] == "nodes"] == ["lost"]
        shutil.rmtree(kept)
        unseen = local.run("storage", "audit", "--for", "1.30", code=1).stderr
        assert unseen.splitlines()[0] == "Not looked at: the files of a, of which there are none here."
    finally:
        local.run("down", "--purge")


def test_wrong_usage_is_reported(local: Local) -> None:
    """An unknown version, gate or resource is wrong usage, and so is a cluster that does not run."""
    assert "is not supported" in local.run("storage", "audit", "--for", "1.99", code=2).stderr
    gates = ("--feature-gates", "Nonsense=true")
    assert "Nonsense" in local.run("storage", "audit", "--for", "1.33", *gates, code=2).stderr
    assert "does not serve nothing" in local.run("storage", "migrate", "nothing", code=2).stderr
    local.run("down")
    assert "the cluster does not run" in local.run("storage", "migrate", code=2).stderr
