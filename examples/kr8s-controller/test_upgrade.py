"""The controller through an upgrade, node by node."""

import subprocess
import sys
from pathlib import Path

import pytest

CONTROLLER = Path(__file__).with_name("labelling.py")
LABEL = "example.com/kubelet"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
}


@pytest.fixture
def controller(kubeskew_cluster):
    """Runs the controller as a program of its own, next to the cluster."""
    cluster = kubeskew_cluster
    command = [sys.executable, str(CONTROLLER), str(cluster.kubeconfig), cluster.namespace]
    process = subprocess.Popen(command)
    yield process
    process.kill()
    process.wait()


@pytest.mark.kubeskew(config={"version": "1.35"})
def test_the_label_follows_the_kubelet(kubeskew_cluster, controller):
    """The label is that of the kubelet that runs the pod, whoever is upgraded when."""
    cluster = kubeskew_cluster
    cluster.client.create(POD)

    def labelled(version):
        labels = cluster.client.get("v1", "Pod", "web")["metadata"]["labels"]
        return labels[LABEL].startswith(f"v{version}.")

    cluster.eventually(lambda: labelled("1.35"))
    cluster.upgrade("1.36", "apiserver")  # its watches end
    assert labelled("1.35")
    cluster.upgrade("1.36")
    cluster.eventually(lambda: labelled("1.36"))
    cluster.fault(component="apiserver", verb="patch", resource="pods", nth=1, answer=500)
    cluster.downgrade("1.35", "kubelet")
    cluster.eventually(lambda: labelled("1.35"))

    assert controller.poll() is None
    cluster.check()
