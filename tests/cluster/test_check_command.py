"""`kubeskew check` over clusters of processes."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from asking import Local

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(200)]


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """A cluster without nodes."""
    local = Local(tmp_path / "state")
    local.run("up", "--nodes", "0")
    yield local
    local.run("down", "--purge")


def test_a_healthy_cluster_breaks_no_invariant(local: Local) -> None:
    """`check` finds nothing in a cluster that has just begun, and says what it judged."""
    text = local.run("check", "--quiet-for", "0").stdout
    assert text.endswith("0 violations of the invariants.\n")
    document = json.loads(local.run("check", "--quiet-for", "1e9", "-o", "json").stdout)
    assert (document["violations"], document["atRest"], document["compacted"]) == ([], False, 0)
    assert document["revision"] > 0


def test_a_component_that_ended_by_itself_is_reported(local: Local) -> None:
    """`check` exits with 1 and names the component whose process is gone."""
    components = json.loads(local.run("status", "-o", "json").stdout)["components"]
    pid = next(each["pid"] for each in components if each["component"] == "scheduler")
    os.kill(pid, signal.SIGKILL)
    document = json.loads(local.run("check", "-o", "json", code=1).stdout)
    found = [(each["invariant"], each["name"], each["message"]) for each in document["violations"]]
    assert found == [("I14", "no-crash", "scheduler ended by itself: its process has ended")]


@pytest.mark.slow
def test_a_log_that_cannot_be_read_is_wrong_usage(local: Local) -> None:
    """`check` exits with 2 and says which event of the log is damaged."""
    local.run("down")
    with closing(sqlite3.connect(local.state / "data" / "log.db", isolation_level=None)) as raw:
        (revision,) = raw.execute("SELECT max(revision) FROM events").fetchone()
        raw.execute(f"UPDATE events SET value = x'ff' WHERE revision = {revision}")
    assert f"the log's event {revision}," in local.run("check", code=2).stderr


@pytest.mark.slow
def test_a_log_that_ends_early_is_wrong_usage(local: Local) -> None:
    """`check` exits with 2 and says which events are gone, in one line; it does not judge the rest."""
    local.run("down")
    with closing(sqlite3.connect(local.state / "data" / "log.db", isolation_level=None)) as raw:
        (revision,) = raw.execute("SELECT max(revision) FROM events").fetchone()
        raw.execute(f"DELETE FROM events WHERE revision > {revision - 20}")
    error = local.run("check", code=2).stderr
    assert f"the log ends at revision {revision - 20}, though {revision} was committed" in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_a_pod_that_nobody_schedules_is_reported(tmp_path: Path) -> None:
    """`check` asks the scheduler's plugins about pending pods: one that fits a node is reported."""
    local = Local(tmp_path / "state")
    local.run("up", "--nodes", "1")
    components = json.loads(local.run("status", "-o", "json").stdout)["components"]
    pid = next(each["pid"] for each in components if each["component"] == "scheduler")
    os.kill(pid, signal.SIGSTOP)
    try:
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        local.create("/api/v1/namespaces/default/pods", {"apiVersion": "v1", "kind": "Pod", **pod})
        found = json.loads(local.run("check", "--quiet-for", "0", "-o", "json", code=1).stdout)["violations"]
    finally:
        os.kill(pid, signal.SIGCONT)
        local.run("down", "--purge")
    assert [each["message"] for each in found if each["invariant"] == "I04"] == [
        (
            "Pod default/p fits node node-1 and is not bound: nothing is said about it; "
            "the scheduler is not ready: no answer"
        )
    ]
