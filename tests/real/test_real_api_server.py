"""A real kube-apiserver 1.36 on the cluster's log, in turns with an emulated one and side by side."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from asking import CONFIG_MAPS, Local, config_map, eventually
from postgresql_server import PostgreSQLServer

pytestmark = [pytest.mark.real, pytest.mark.cluster, pytest.mark.timeout(600)]

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REAL = ("apiserver", "scheduler", "controller-manager")


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    found = Local(tmp_path / "state")
    yield found
    found.run("down", "--purge")


def deployment(replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def is_ready(local: Local, replicas: int) -> bool:
    status = local.get(f"{DEPLOYMENTS}/web")["status"]
    return bool(status.get("readyReplicas") == replicas == status.get("availableReplicas"))


def real_ones(local: Local) -> dict[str, str]:
    return {name: row["program"] for name, row in local.components().items() if row["program"]}


def test_a_real_control_plane_and_its_time_machine(local: Local, binaries: Path):
    """A deployment stays ready from a real control plane to an emulated API server of the minor before, and
    back; the log tells all of it, holds every invariant, and is forked in the middle."""
    local.run(
        "up", "--version", "1.36", "--nodes", "2", "--binaries", str(binaries), "--real", ",".join(REAL)
    )
    assert {*real_ones(local)} == {*REAL}
    assert local.get("/version")["gitVersion"].startswith("v1.36.")
    local.create(DEPLOYMENTS, deployment(3))
    eventually(lambda: is_ready(local, 3))
    revision = local.get(f"{DEPLOYMENTS}/web")["metadata"]["resourceVersion"]

    local.run("restart", "apiserver", "--real", "none")
    assert {*real_ones(local)} == {*REAL[1:]}
    local.run("downgrade", "--to", "1.35")
    assert local.get("/version")["gitVersion"].startswith("v1.35.")
    assert is_ready(local, 3)
    local.run("upgrade", "--to", "1.36", "--real", ",".join(REAL))
    assert {*real_ones(local)} == {*REAL}
    assert is_ready(local, 3)

    created = next(event for event in local.events() if event["object"].endswith(" default/web"))
    assert (created["verb"], created["server"][:6]) == ("create", "v1.36.")
    local.run("check", "--quiet-for", "0")
    other = Local(local.state.with_name("fork"))
    local.run("fork", "--at", revision, str(other.state))
    try:
        other.run("up")
        assert {*real_ones(other)} == {*REAL}
        eventually(lambda: is_ready(other, 3))
    finally:
        other.run("down", "--purge")


def test_a_real_server_dies_after_a_commit(local: Local, binaries: Path):
    """The write is there when the server is back; a fault that its writes do not know is refused."""
    local.run("up", "--version", "1.36", "--nodes", "1", "--binaries", str(binaries), "--real", "apiserver")
    by_user = ("--user", "kubernetes-admin", "--verb", "create", "--crash", "after")
    assert "do not say who asked" in local.refused("fault", "apiserver", *by_user)
    local.run("fault", "apiserver", "--verb", "create", "--resource", "configmaps", "--crash", "after")
    with pytest.raises((OSError, AssertionError)):
        local.create(CONFIG_MAPS, config_map("a"))
    eventually(lambda: local.states()["apiserver"] != "Ready")
    local.run("restart", "apiserver")

    assert local.get(f"{CONFIG_MAPS}/a")["data"] == {"a": "b"}
    assert ("apiserver", "crashed") in local.timeline()


def test_real_and_emulated_servers_share_a_log(local: Local, binaries: Path, tmp_path: Path):
    """Objects of one server are the other's, at one sequence of revisions; clients of the shared port go on
    when one is killed."""
    cluster = {
        "version": "1.36",
        "ha": 2,
        "nodes": [{"name": "node"}],
        "components": {"apiserver-1": {"binary": str(binaries / "1.36" / "kube-apiserver")}},
    }
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(cluster))
    local.run("up", "--config", str(file))
    assert {*real_ones(local)} == {"apiserver-1"}
    revisions = []
    for number in range(10):
        server, other = (f"apiserver-{(number + place) % 2 + 1}" for place in (0, 1))
        made = local.create(CONFIG_MAPS, config_map(f"c{number}"), server)
        assert local.get(f"{CONFIG_MAPS}/c{number}", other)["metadata"] == made["metadata"]
        revisions.append(int(made["metadata"]["resourceVersion"]))
    assert revisions == sorted({*revisions})
    local.run("kill", "apiserver-1")

    assert all(len(local.get(CONFIG_MAPS, "any")["items"]) >= 10 for _ in range(20))


@pytest.mark.postgresql
def test_a_real_server_over_postgresql(local: Local, binaries: Path, postgresql: PostgreSQLServer):
    """The log may be in PostgreSQL: a real server's objects are an emulated one's, and the other way round,
    and what was written outlives a kill."""
    flags = ("--binaries", str(binaries), "--real", "apiserver", "--storage", postgresql.fresh())
    local.run("up", "--version", "1.36", "--nodes", "1", *flags)
    assert {*real_ones(local)} == {"apiserver"}
    made = local.create(CONFIG_MAPS, config_map("a"))
    local.run("kill", "apiserver")
    local.run("restart", "apiserver", "--real", "none")
    assert local.get(f"{CONFIG_MAPS}/a") == made
    local.create(CONFIG_MAPS, config_map("b"))
    local.run("restart", "apiserver", "--real", "apiserver")
    assert local.get(f"{CONFIG_MAPS}/b")["data"] == {"a": "b"}
    created = [event for event in local.events() if event["object"].endswith((" default/a", " default/b"))]
    assert [event["server"][:6].rstrip(".") for event in created] == ["v1.36", "1.36"]
