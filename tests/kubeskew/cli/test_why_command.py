"""`kubeskew why` of a pod that found no place, over a log that is written by hand; nothing runs."""

import asyncio
import json
from datetime import UTC, datetime

import orjson
import pytest

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.storage.records import Author, Change, ComponentEvent, Key, Verb
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.cli.main import main
from kubeskew.cluster.state import Process, State, StateDir

SCHEDULER = Author("system:kube-scheduler", "kube-scheduler", "1.36", "1.36", "r")
NOW = datetime(2026, 1, 2, tzinfo=UTC)
POD = Key("pods", "default", "p")


def node(name, cpu, **taint):
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    spec = {"taints": [taint]} if taint else {}
    status = {"capacity": allocatable, "allocatable": allocatable}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": status}


def pod(**status):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "4"}}}],
        },
        "status": {"phase": "Pending", **status},
    }


WAITING = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available."}]}


@pytest.fixture
def directory(tmp_path):
    """A cluster that is down, with three nodes of which none takes the pod; a fourth comes afterwards."""
    directory = StateDir(tmp_path / "state")
    state = State(runtime_config={})
    state.processes["apiserver"] = Process("apiserver", "apiserver", "1.36", {}, 1)
    directory.save(state)
    directory.database.parent.mkdir(parents=True)
    asyncio.run(write(directory))
    return directory


async def write(directory):
    log = await SQLLog.open(directory.storage_url, SystemClock())
    for name in ("apiserver", "scheduler"):
        await log.record(ComponentEvent(0, name, "started", "1.36", "", NOW))
    tainted = node("tainted", "8", key="a", value="b", effect="NoSchedule")
    for made in (node("small-1", "1"), node("small-2", "2"), tainted):
        await create(log, Key("nodes", "", made["metadata"]["name"]), made)
    first = await create(log, POD, pod())
    waiting = orjson.dumps(pod(**WAITING))
    await log.append(Change(Verb.UPDATE, POD, "u", waiting, first.revision, SCHEDULER, NOW))
    await create(log, Key("nodes", "", "large"), node("large", "64"))
    await log.close()


async def create(log, key, value):
    return await log.append(Change(Verb.CREATE, key, "u", orjson.dumps(value), 0, SCHEDULER, NOW))


def test_the_plugins_that_refused_a_pod_are_reported(directory, capsys):
    """A pod that found no place is reported with the plugins, the nodes they refused and why, as of then."""
    with pytest.raises(SystemExit) as exited:
        main(["--state-dir", str(directory.path), "why", "p", "-o", "json"])
    assert not exited.value.code
    reasons = [each for each in json.loads(capsys.readouterr().out) if "found no place" in each["text"]]
    assert [each["because"].split("; ") for each in reasons] == [
        [
            "NodeResourcesFit refused small-1, small-2: Insufficient cpu",
            "TaintToleration refused tainted: node(s) had untolerated taint(s)",
        ]
    ]
