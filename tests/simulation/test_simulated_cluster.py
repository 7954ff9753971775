"""Simulated clusters for the code of others: a fixture of pytest, and what runs next to the cluster."""

import asyncio
import base64
import os
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import kr8s.asyncio
import pytest
from copying_operator import CopyingOperator

from kubeskew.apimachinery.client.refs import CONFIG_MAPS, PODS, SECRETS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.simulation.pytest_plugin import MakesClusters
from kubeskew.simulation.simulated_cluster import NotRunningError, SimulatedCluster

ROOT = Path(__file__).parents[2]


def config_map(name: str, text: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": {"copy": "yes"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


async def copies(cluster: SimulatedCluster) -> dict[str, str]:
    """Returns the texts of the secrets that the operator has made, by name."""
    items = (await cluster.client.list(SECRETS, "default"))["items"]
    return {item["metadata"]["name"]: base64.b64decode(item["data"]["text"]).decode() for item in items}


async def until_copied(cluster: SimulatedCluster, wanted: dict[str, str], seconds: float = 30.0) -> None:
    """Returns once there are just these copies; raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while True:
            with suppress(*CONNECTION_ERRORS):
                if await copies(cluster) == wanted:
                    return
            await asyncio.sleep(0.1)


def through_an_upgrade(cluster: SimulatedCluster) -> str:
    """Runs the operator through an upgrade, faults and its own death; returns the hash of the log."""

    async def story() -> None:
        operator = cluster.start("operator", lambda: CopyingOperator(cluster.url, cluster.token).run())
        await cluster.client.create(CONFIG_MAPS, config_map("first", "a"))
        await until_copied(cluster, {"first": "a"})

        await cluster.fault(component="apiserver", verb="create", resource="secrets", nth=1, answer=500)
        await cluster.client.create(CONFIG_MAPS, config_map("second", "b"))
        await until_copied(cluster, {"first": "a", "second": "b"})

        operator.kill()
        await cluster.client.update(CONFIG_MAPS, config_map("first", "c"))
        await cluster.upgrade("1.36")
        assert await copies(cluster) == {"first": "a", "second": "b"}
        operator.start()
        await until_copied(cluster, {"first": "c", "second": "b"})

        await cluster.fault(component="apiserver", outage="5s")
        await asyncio.sleep(6)
        await cluster.client.create(CONFIG_MAPS, config_map("third", "d"))
        await until_copied(cluster, {"first": "c", "second": "b", "third": "d"})
        assert "once more" in operator.log()

    cluster.run(story())
    return cluster.log_hash


def test_an_operator_does_its_work_through_an_upgrade_with_faults(simulated_cluster: MakesClusters):
    """It survives an error, its own death, an upgrade and an outage; the same seed gives the same log."""
    hashes = {through_an_upgrade(simulated_cluster(seed=7, version="1.35")) for _ in range(2)}

    assert len(hashes) == 1


def test_kr8s_reaches_the_cluster_by_its_kubeconfig(simulated_cluster: MakesClusters):
    """It creates a pod, waits for it, runs a command in it and reads its log, as in any cluster."""
    cluster = simulated_cluster(version="1.35")
    spec = {
        "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", "echo up; sleep infinity"]}]
    }

    async def story() -> tuple[bytes, list[str]]:
        api = await kr8s.asyncio.api(kubeconfig=str(cluster.kubeconfig))
        resource = {"metadata": {"name": "a", "namespace": "default"}, "spec": spec}
        pod = await kr8s.asyncio.objects.Pod(resource, api=api)
        await pod.create()
        await pod.wait("condition=Ready")
        done = await pod.exec(["echo", "hello"])
        return done.stdout, [line async for line in pod.logs()]

    assert cluster.run(story()) == (b"hello\n", ["up"])
    assert cluster.failures == []


def test_kopf_runs_next_to_the_cluster(simulated_cluster: MakesClusters):
    """An operator of kopf handles what is created, before and after an upgrade of all components."""
    kopf = pytest.importorskip("kopf", reason="kopf is not installed: it is in the extra `dev`")
    cluster = simulated_cluster(seed=3, version="1.35")
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> Any:
        return kopf.ConnectionInfo(server=cluster.url, token=cluster.token, insecure=True)

    @kopf.on.create("configmaps", labels={"copy": "yes"}, registry=registry)
    async def made(patch: Any, **_: Any) -> None:
        patch.metadata.annotations["example.com/seen"] = "yes"

    async def seen(name: str) -> None:
        await cluster.client.create(CONFIG_MAPS, config_map(name, "a"))
        async with asyncio.timeout(60):
            while True:
                found = await cluster.client.get(CONFIG_MAPS, name, "default")
                if "example.com/seen" in (found["metadata"].get("annotations") or {}):
                    return
                await asyncio.sleep(0.5)

    async def story() -> None:
        cluster.start("operator", lambda: kopf.operator(registry=registry, clusterwide=True, standalone=True))
        await seen("before")
        await cluster.upgrade("1.36")
        await seen("after")

    cluster.run(story())


def test_a_killed_process_does_nothing_more(simulated_cluster: MakesClusters):
    """Not even its `finally` runs, and it can be started again; one that is stopped runs to its end."""
    cluster = simulated_cluster()
    done: list[str] = []

    async def work() -> None:
        done.append("began")
        try:
            await asyncio.sleep(3600)
        finally:
            done.append("ended")

    async def story() -> None:
        process = cluster.start("worker", work)
        await asyncio.sleep(1)
        process.kill()
        await asyncio.sleep(1)
        assert (done, process.alive) == (["began"], False)
        process.start()
        await asyncio.sleep(1)
        await process.stop()
        assert (done, process.alive) == (["began", "began", "ended"], False)

    cluster.run(story())


def test_what_a_process_ends_with_is_the_test_s_failure(simulated_cluster: MakesClusters):
    """An operator that raises does not go unheard."""
    cluster = simulated_cluster()

    async def work() -> None:
        raise LookupError("the operator's own fault")

    async def story() -> None:
        cluster.start("worker", work)
        await asyncio.sleep(1)

    with pytest.raises(LookupError, match="the operator's own fault"):
        cluster.run(story())


def test_a_cluster_is_there_while_it_runs(simulated_cluster: MakesClusters):
    """A run returns what its story returns; before and after it, a client is an error that says why."""
    cluster = simulated_cluster(nodes=[{"name": "a"}, {"name": "b"}])

    async def story() -> int:
        return len((await cluster.client.list(PODS))["items"])

    with pytest.raises(NotRunningError, match="only inside of run"):
        _ = cluster.client
    assert cluster.run(story()) == 0
    with pytest.raises(NotRunningError, match="only inside of run"):
        _ = cluster.kubeconfig
    with pytest.raises(RuntimeError, match="runs once"):
        cluster.run(story())


async def test_a_cluster_does_not_run_in_another_loop(simulated_cluster: MakesClusters):
    """In a coroutine of another event loop run() says what to do instead."""

    async def story() -> None:
        raise AssertionError("this is not reached")

    with pytest.raises(RuntimeError, match="call run\\(\\) from a plain function"):
        simulated_cluster().run(story())


@pytest.mark.parametrize(
    ("cluster", "why"), [({"nodez": []}, "nodez"), ({"version": "1.99"}, "version 1.99 is not supported")]
)
def test_a_cluster_that_cannot_be_is_refused(
    simulated_cluster: MakesClusters, cluster: dict[str, Any], why: str
):
    """A wrong key or version is reported when the cluster is made."""
    with pytest.raises((ClusterError, UserError), match=why):
        simulated_cluster(**cluster)


TEST_OF_A_USER = """
from kubeskew.apimachinery.client.refs import NODES


def test_of_a_user(simulated_cluster):
    cluster = simulated_cluster(seed=1, version="1.35", nodes=[{"name": "mine"}])

    async def story():
        await cluster.upgrade("1.36")
        return [node["metadata"]["name"] for node in (await cluster.client.list(NODES))["items"]]

    assert cluster.run(story()) == ["mine"]
"""


def test_pytest_has_the_fixture_from_the_plugin(tmp_path: Path):
    """A test elsewhere asks for the fixture by its name alone, with no other plugin there."""
    (tmp_path / "test_mine.py").write_text(TEST_OF_A_USER)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "kubeskew.simulation.pytest_plugin", str(tmp_path)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout


def test_an_installed_kubeskew_brings_the_plugins():
    """The package says to pytest where the plugins are: of simulated clusters, and of those of processes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["entry-points"]["pytest11"] == {
        "kubeskew": "kubeskew.simulation.pytest_plugin",
        "kubeskew-cluster": "kubeskew.testing.pytest_plugin",
    }
