"""The fixture `kubeskew_cluster` in test suites of others, on clusters of processes."""

import json

import pytest
from asking import runs

pytest_plugins = ("pytester",)
pytestmark = [pytest.mark.people, pytest.mark.cluster, pytest.mark.timeout(300)]

PLUGIN = "kubeskew.testing.pytest_plugin"
SETTINGS = """
import pytest

CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}


@pytest.fixture(scope="session")
def kubeskew_config():
    return {"version": "1.35", "nodes": [{"name": "mine"}]}


@pytest.fixture(scope="session")
def kubeskew_setup():
    return lambda cluster: cluster.client.create({**CLASS, "metadata": {"name": "installed"}})
"""
SUITE = """
import json
import os

import pytest
from conftest import CLASS
from kubeskew.testing.kubectl import KubectlError
from kubeskew.testing.running_cluster import InvariantError

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "x"}], "priorityClassName": "installed"},
}
SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
seen = {}


def is_new(cluster):
    \"\"\"A cluster that no test has changed: its versions and gates, and what is in it.\"\"\"
    assert set(cluster.versions.values()) == {"1.35"}
    assert cluster.client.list("v1", "Pod", "*") == []
    classes = cluster.client.list("scheduling.k8s.io/v1", "PriorityClass")
    assert {each["metadata"]["name"] for each in classes if each["value"] < 10} == {"installed"}
    return True


def test_a_pod_runs(kubeskew_cluster):
    cluster = kubeskew_cluster
    assert is_new(cluster)
    assert list(cluster.versions) == ["apiserver", "controller-manager", "scheduler", "kubelet/mine"]
    assert os.environ["KUBECONFIG"] == str(cluster.kubeconfig)
    cluster.client.create(POD)
    assert cluster.eventually(lambda: cluster.client.get("v1", "Pod", "p")["status"]["phase"] == "Running")
    assert cluster.kubectl("get", "pods", "-o", "name") == "pod/p\\n"
    assert cluster.kubectl("apply", "-f", "-", stdin=json.dumps(SETTINGS)) == "configmap/settings created\\n"
    with pytest.raises(KubectlError, match="`kubectl get pods none` failed with exit code 1: .*NotFound"):
        cluster.kubectl("get", "pods", "none")
    bound = cluster.events("pods", verb="update", component="scheduler")
    assert [row["object"] for row in bound] == [f"pods {cluster.namespace}/p"]
    assert cluster.node("mine").registry.is_dir()
    cluster.check()
    seen.update(url=cluster.url, namespace=cluster.namespace)


def test_another_one_has_a_namespace_of_its_own(kubeskew_cluster):
    cluster = kubeskew_cluster
    assert is_new(cluster) and cluster.url == seen["url"] and cluster.namespace != seen["namespace"]
    cluster.client.create({**CLASS, "metadata": {"name": "left"}})  # in no namespace


def test_versions_and_gates_move(kubeskew_cluster):
    cluster = kubeskew_cluster
    assert is_new(cluster)
    cluster.client.create(POD)
    before = cluster.revision
    cluster.upgrade()  # to the next minor
    cluster.downgrade("1.35", "scheduler")
    cluster.gates({"DRAExtendedResource": False}, "scheduler")
    assert (cluster.versions["apiserver"], cluster.versions["scheduler"]) == ("1.36", "1.35")
    other = cluster.fork(at=before)
    assert set(other.versions.values()) == {"1.35"} and other.url != cluster.url
    assert other.client.get("v1", "Pod", "p")["metadata"]["namespace"] == cluster.namespace
    other.client.create(SETTINGS)
    assert cluster.client.list("v1", "ConfigMap", label_selector="none") == []
    cluster.rewind(before)
    assert set(cluster.versions.values()) == {"1.35"} and cluster.client.get("v1", "Pod", "p")


def test_components_fail(kubeskew_cluster):
    cluster = kubeskew_cluster
    assert is_new(cluster)
    cluster.kill("kubelet")
    cluster.client.create(POD)
    cluster.eventually(lambda: cluster.client.get("v1", "Pod", "p")["spec"]["nodeName"])
    assert cluster.client.get("v1", "Pod", "p")["status"]["phase"] == "Pending"
    cluster.restart("kubelet")
    cluster.eventually(lambda: cluster.client.get("v1", "Pod", "p")["status"]["phase"] == "Running")
    cluster.fault(component="apiserver", verb="create", resource="configmaps", nth=1, answer=409)
    with pytest.raises(Exception, match="onflict|exists"):
        cluster.client.create(SETTINGS)
    cluster.clear_faults()
    cluster.client.create(SETTINGS)


def test_a_broken_invariant_is_reported(kubeskew_cluster):
    cluster = kubeskew_cluster
    assert is_new(cluster)
    cluster.client.create(POD)
    cluster.eventually(lambda: cluster.client.get("v1", "Pod", "p")["status"]["phase"] == "Running")
    cluster.kill("kubelet")
    pod = cluster.client.get("v1", "Pod", "p")
    pod["status"]["podIP"], pod["status"]["podIPs"] = "10.0.0.1", [{"ip": "10.0.0.1"}]
    cluster.client.create({**POD, "metadata": {"name": "q"}})
    cluster.eventually(lambda: cluster.client.get("v1", "Pod", "q")["spec"]["nodeName"])
    twin = cluster.client.get("v1", "Pod", "q")
    twin["status"] = {**pod["status"]}
    cluster.client.update(pod, "status")
    cluster.client.update(twin, "status")
    with pytest.raises(InvariantError, match="I[0-9]+ at revision"):
        cluster.check()


def test_what_fails_shows_what_happened(kubeskew_cluster):
    assert is_new(kubeskew_cluster)
    kubeskew_cluster.client.create(SETTINGS)
    kubeskew_cluster.eventually(lambda: kubeskew_cluster.client.get("v1", "Pod", "none"), seconds=0.1)


def test_what_is_refused_is_reported_at_the_line(kubeskew_cluster):
    kubeskew_cluster.upgrade("1.37")


def test_what_the_server_refuses_is_reported_at_the_line(kubeskew_cluster):
    kubeskew_cluster.client.get("v1", "ConfigMap", "none")


async def coroutine(cluster):
    return cluster.client.get("v1", "ConfigMap", "kube-root-ca.crt")["metadata"]["name"]


def test_calls_work_inside_of_an_event_loop(kubeskew_cluster):
    import asyncio

    assert is_new(kubeskew_cluster)
    kubeskew_cluster.eventually(lambda: kubeskew_cluster.client.get("v1", "ConfigMap", "kube-root-ca.crt"))
    assert asyncio.run(coroutine(kubeskew_cluster)) == "kube-root-ca.crt"
"""


@pytest.fixture
def alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose pytest has no plugin but those that are named."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]")
    return pytester


def test_each_test_has_a_cluster_as_new(alone: pytest.Pytester, find_kubectl):
    """A test finds its cluster as the project wants it, regardless of what others did; a failure shows
    the log."""
    alone.makeconftest(SETTINGS)
    alone.makepyfile(SUITE)
    done = alone.runpytest_subprocess(
        "-p", PLUGIN, "--strict-markers", "-W", "error", f"--kubeskew-kubectl={find_kubectl('1.36')}"
    )

    done.assert_outcomes(passed=6, failed=3)
    done.stdout.fnmatch_lines(
        [
            "*_ test_what_fails_shows_what_happened _*",
            'E *AssertionError: waited in vain for 0.1 s; at last: StatusError: pods "none" not found',
            "*- kubeskew cluster -*",
            "*: apiserver 1.35, controller-manager 1.35, scheduler 1.35, kubelet/mine 1.35",
            "* create configmaps test-what-fails-*/settings (kubeskew-test 1.36)",
            '>   *kubeskew_cluster.upgrade("1.37")',
            "E   *UserError: unsupported version skew on the way: *",
            '>   *kubeskew_cluster.client.get("v1", "ConfigMap", "none")',
            'E   *StatusError: configmaps "none" not found',
        ]
    )
    done.stdout.no_fnmatch_line("*kubeskew/*.py:*")  # no frames of ours


WORKERS = """
import json

import pytest


@pytest.mark.parametrize("number", [1, 2])
def test_where(kubeskew_cluster, number, worker_id, pytestconfig):
    record = json.loads((kubeskew_cluster.state_dir / "state.json").read_text())
    seen = {"url": kubeskew_cluster.url, "pids": [process["pid"] for process in record["processes"]]}
    (pytestconfig.rootpath / f"{worker_id}.json").write_text(json.dumps(seen))
"""


def test_each_worker_has_its_own(alone: pytest.Pytester):
    """Workers of pytest-xdist have clusters next to each other, and none is left running."""
    alone.makepyfile(WORKERS)
    done = alone.runpytest_subprocess("-p", PLUGIN, "-p", "xdist.plugin", "-n", "2")

    done.assert_outcomes(passed=2)
    workers = [json.loads((alone.path / f"gw{number}.json").read_text()) for number in (0, 1)]
    assert workers[0]["url"] != workers[1]["url"]
    pids = [pid for each in workers for pid in each["pids"]]
    assert len(pids) == 8
    assert not any(runs(pid) for pid in pids)
