"""A cluster like kind as people try it out: nginx behind a service, and what its pods use."""

import json
import os
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from asking import Local, eventually

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kubectl,
    pytest.mark.people,
    pytest.mark.xdist_group("cluster"),
]

VERSIONS = ("1.20", "1.32", "1.36")
ANNOTATIONS = ["kubelet.kubeskew.io/cpu-usage=250m", "kubelet.kubeskew.io/memory-usage=64Mi"]


@pytest.fixture(scope="module")
def kind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A cluster like kind with one worker."""
    local = Local(tmp_path_factory.mktemp("kind") / "state")
    local.run("up", "--like", "kind", "--nodes", "1")
    yield local
    local.run("down", "--purge")


def arguments(binary: Path, local: Local, *words: str) -> list[str]:
    return [str(binary), "--kubeconfig", str(local.state / "kubeconfig"), *words]


def run(binary: Path, local: Local, *words: str, code: int = 0) -> str:
    """Returns what kubectl prints."""
    environment = {**os.environ, "HOME": str(local.state)}
    result = subprocess.run(
        arguments(binary, local, *words), capture_output=True, text=True, timeout=60, env=environment
    )
    assert result.returncode == code, f"{words}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@contextmanager
def forwarded(binary: Path, local: Local, target: str) -> Iterator[str]:
    """The URL of a port of this machine that leads to port 80 of a pod or service."""
    command = arguments(binary, local, "port-forward", target, ":80")
    environment = {**os.environ, "HOME": str(local.state)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as forwarding:
        try:
            found = re.search(
                r"127\.0\.0\.1:(\d+)", forwarding.stdout.readline() if forwarding.stdout else ""
            )
            assert found
            yield f"http://127.0.0.1:{found[1]}/"
        finally:
            forwarding.terminate()


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def test_the_usual_smoke(kind: Local, find_kubectl):
    """A deployment answers by port-forward with every kubectl, and by the proxies of pod and service."""
    newest = find_kubectl("1.36")
    run(newest, kind, "create", "deployment", "web", "--image=nginx")
    run(newest, kind, "expose", "deployment", "web", "--port", "80")
    run(newest, kind, "rollout", "status", "deployment/web", "--timeout=30s")
    pod = run(newest, kind, "get", "pods", "-l", "app=web", "-o", "name").strip().removeprefix("pod/")

    for version in VERSIONS:
        with forwarded(find_kubectl(version), kind, "svc/web") as url:
            assert json.loads(page(url))["path"] == "/"
    base = "/api/v1/namespaces/default"
    for path in (f"{base}/pods/{pod}/proxy/", f"{base}/services/web:80/proxy/"):
        assert json.loads(run(newest, kind, "get", "--raw", path))["pod"] == pod


def test_top(kind: Local, find_kubectl):
    """`kubectl top` of every version shows what annotations say, once the kubelets have been asked twice."""
    newest = find_kubectl("1.36")
    run(newest, kind, "run", "busy", "--image=nginx", "--labels=app=busy", "--annotations", ANNOTATIONS[0])
    run(newest, kind, "wait", "--for=condition=Ready", "pod/busy", "--timeout=30s")
    run(newest, kind, "annotate", "pod", "busy", ANNOTATIONS[1])
    metrics = "/apis/metrics.k8s.io/v1beta1"
    eventually(lambda: kind.ask("GET", f"{metrics}/namespaces/default/pods/busy")[0] == 200)
    eventually(lambda: len(kind.get(f"{metrics}/nodes")["items"]) == 2)

    for version in VERSIONS:
        binary = find_kubectl(version)
        shown = run(binary, kind, "top", "pods", "-l", "app=busy", "--containers", "--no-headers").split()
        assert shown == ["busy", "busy", "250m", "64Mi"]
        nodes = [line.split()[0] for line in run(binary, kind, "top", "nodes", "--no-headers").splitlines()]
        assert sorted(nodes) == ["kind-control-plane", "node-1"]
    table = run(newest, kind, "get", "podmetrics", "busy").splitlines()
    assert table[0].split() == ["NAME", "CPU", "MEMORY", "WINDOW"]
    assert table[1].split()[:1] == ["busy"]


def test_it_is_picked_up_again(kind: Local, find_kubectl):
    """After a stop everything is as it was, and the metrics server is found at once."""
    kind.run("down")
    kind.run("up")

    shown = run(find_kubectl("1.36"), kind, "get", "apiservice", "v1beta1.metrics.k8s.io", "--no-headers")
    assert shown.split()[:3] == ["v1beta1.metrics.k8s.io", "kube-system/metrics-server", "True"]


def test_who_asks_the_metrics_server_itself(kind: Local):
    """Without the API server in front it has to be a user that the API server knows, with a right to it."""
    port = kind.port("metrics-server")
    url = f"https://127.0.0.2:{port}"
    tls = ssl.create_default_context(cafile=str(kind.state / "ca.crt"))
    tls.check_hostname = False

    def ask(path: str, **headers: str) -> tuple[int, str]:
        request = urllib.request.Request(f"{url}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, context=tls, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    pods = "/apis/metrics.k8s.io/v1beta1/pods"
    status, text = ask(pods)
    why = (
        'pods.metrics.k8s.io is forbidden: User "system:anonymous" cannot list resource "pods" in API group '
        '"metrics.k8s.io" at the cluster scope'
    )
    assert (status, json.loads(text)["message"]) == (403, why)
    forged = {"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"}
    assert ask(pods, **forged)[0] == 403  # whoever has no certificate of a front proxy names nobody
    assert ask(pods, Authorization="Bearer none")[0] == 401
    assert ask(pods, Authorization=kind.headers()["Authorization"])[0] == 200
    assert ask("/livez") == (200, "ok")
