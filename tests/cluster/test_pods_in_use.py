"""Pods as people use them, with every kubectl: logs, exec, attach, run, port-forward, debug, resize."""

import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path

import pytest
from asking import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl, pytest.mark.xdist_group("cluster")]

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: x}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: talker
    image: busybox
    command: [sh, -c, "echo hello; echo $WHO; sleep 1000"]
    env: [{name: WHO, value: world}]
    resources: {requests: {cpu: 100m}}
  - {name: web, image: example.com/web, ports: [{containerPort: 80}]}
"""
CRASH = """
apiVersion: v1
kind: Pod
metadata: {name: crash}
spec: {containers: [{name: c, image: busybox, command: [sh, -c, "echo failing; exit 2"]}]}
"""


@pytest.fixture
def pod(kubectl):
    """A running pod with two containers."""
    kubectl("apply", "-f", "-", stdin=POD)
    kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=30s")
    return "p"


def test_logs(kubectl, pod):
    """Of a container, by label with a prefix, followed to the end, and of the attempt before."""
    assert kubectl("logs", "p", "-c", "talker").stdout == "hello\nworld\n"
    assert kubectl("logs", "p", "-c", "talker", "--tail=1").stdout == "world\n"
    shown = kubectl("logs", "-l", "app=x", "-c", "talker", "--prefix").stdout
    assert shown == "[pod/p/talker] hello\n[pod/p/talker] world\n"
    assert 'previous terminated container "talker" in pod "p" not found' in (
        kubectl("logs", "p", "-c", "talker", "--previous", code=1).stderr
    )
    kubectl("run", "l", "--image=i", "--restart=Never", "--", "sh", "-c", "echo a; sleep 0.5; echo b")
    kubectl("wait", "--for=condition=PodScheduled", "pod/l", "--timeout=30s")
    kubectl("wait", "--for=condition=Ready=false", "pod/l", "--timeout=30s")
    assert kubectl("logs", "l", "-f").stdout == "a\nb\n"
    kubectl("apply", "-f", "-", stdin=CRASH)
    restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
    eventually(lambda: kubectl("get", "pod", "crash", "-o", restarts).stdout == "1")
    assert kubectl("logs", "crash", "--previous").stdout == "failing\n"


def test_commands(kubectl, pod):
    """exec with output and exit codes, and of a command that is none."""
    ran = kubectl("exec", "p", "-c", "web", "--", "sh", "-c", "echo $HOSTNAME; exit 3", code=3)
    assert ran.stdout == "p\n"
    assert "command terminated with exit code 3" in ran.stderr
    missing = kubectl("exec", "p", "-c", "web", "--", "nosuch", code=1).stderr
    assert 'exec: "nosuch": executable file not found in $PATH' in missing


def test_run_and_attach(kubectl):
    """`run -i --rm` shows what a program writes and its exit code, and leaves nothing."""
    ran = kubectl(
        "run", "r", "-i", "--rm", "--image=busybox", "--restart=Never", "--",
        "sh", "-c", "sleep 2; echo from the program; sleep 1; exit 4", code=4,
    )  # fmt: skip
    assert "from the program" in ran.stdout
    assert kubectl("get", "pods", "-o", "name").stdout == ""


def test_port_forward(kubectl, pod, cluster, request, find_kubectl):
    """A port of this machine leads into the pod."""
    version = request.node.callspec.params["kubectl"]
    namespace = kubectl("get", "pod", "p", "-o", "jsonpath={.metadata.namespace}").stdout
    arguments = ["--kubeconfig", str(cluster.kubeconfig), "-n", namespace, "port-forward", "pod/p", ":80"]
    environment = {**os.environ, "HOME": str(Path.home())}
    with subprocess.Popen(
        [str(find_kubectl(version)), *arguments], stdout=subprocess.PIPE, text=True, env=environment
    ) as forwarding:
        try:
            port = re.search(r"127\.0\.0\.1:(\d+)", forwarding.stdout.readline())[1]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/x", timeout=10) as answer:
                assert json.load(answer)["path"] == "/x"
        finally:
            forwarding.terminate()
    proxied = kubectl("get", "--raw", f"/api/v1/namespaces/{namespace}/pods/p/proxy/y").stdout
    assert json.loads(proxied)["path"] == "/y"


@pytest.mark.parametrize("kubectl", ["1.32", "1.36"], indirect=True)
def test_debug_and_resize(kubectl, pod):
    """An ephemeral container next to the others; other resources without a restart."""
    kubectl("debug", "p", "--image=busybox", "-c", "dbg", "--", "sh", "-c", "echo debugging; sleep 100")
    kubectl("wait", "--for=jsonpath={.status.ephemeralContainerStatuses[0].state.running}", "pod/p")
    assert kubectl("logs", "p", "-c", "dbg").stdout == "debugging\n"
    wanted = '{"spec":{"containers":[{"name":"talker","resources":{"requests":{"cpu":"200m"}}}]}}'
    kubectl("patch", "pod", "p", "--subresource=resize", "-p", wanted)
    kubectl("wait", "--for=jsonpath={.status.containerStatuses[0].allocatedResources.cpu}=200m", "pod/p")
    assert kubectl("get", "pod", "p").stdout.splitlines()[1].split()[3] == "0"
