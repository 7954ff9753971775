"""The manifests of the control plane's static pods, as kubeadm writes them for kind.

The components are processes of the cluster; the pods show them, with the version of each in the tag of its
image. Probes, volumes and most flags are left out, because they have no effect in a fake container. Source:
cmd/kubeadm/app/phases/controlplane/manifests.go, cmd/kubeadm/app/phases/etcd/local.go.
"""

from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.state import Process, State

_REPOSITORY = "registry.k8s.io"
_NAMES = {
    "apiserver": ("kube-apiserver", {"cpu": "250m"}),
    "controller-manager": ("kube-controller-manager", {"cpu": "200m"}),
    "scheduler": ("kube-scheduler", {"cpu": "100m"}),
}
# DefaultEtcdVersion in cmd/kubeadm/app/constants/constants.go; from 1.31 on at the newest patches.
_ETCD = {
    26: "3.5.6-0", 27: "3.5.7-0", 28: "3.5.9-0", 29: "3.5.10-0", 30: "3.5.12-0", 31: "3.5.24-0",
    32: "3.5.24-0", 33: "3.5.24-0", 34: "3.6.5-0", 35: "3.6.6-0", 36: "3.6.8-0",
}  # fmt: skip


def nodes(state: State) -> list[str]:
    return [name for name, entry in state.nodes.items() if entry.get("controlPlane")]


def image(name: str, version: str) -> str:
    return f"{_REPOSITORY}/{name}:{Version.parse(version).git_version.replace('+', '_')}"


def manifests(state: State) -> list[dict[str, Any]]:
    """Etcd has a manifest, too."""
    return [*_manifests(state)]


def _manifests(state: State) -> Iterator[dict[str, Any]]:
    server = state.of_kind("apiserver")[0]
    tag = _ETCD[min(max(Version.parse(server.version).minor, min(_ETCD)), max(_ETCD))]
    yield _pod("etcd", f"{_REPOSITORY}/etcd:{tag}", {"cpu": "100m", "memory": "100Mi"}, ["etcd"])
    for kind, (name, requests) in _NAMES.items():
        process = state.of_kind(kind)[0]
        yield _pod(name, image(name, process.version), requests, [name, *_flags(process)])


def _flags(process: Process) -> list[str]:
    gates = process.feature_gates.flag()
    return [f"--feature-gates={gates}"] if gates else []


def _pod(name: str, image: str, requests: dict[str, str], command: list[str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            "labels": {"component": name, "tier": "control-plane"},
        },
        "spec": {
            "containers": [
                {
                    "name": name,
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": command,
                    "resources": {"requests": requests},
                }
            ],
            "hostNetwork": True,
            "priority": 2000001000,
            "priorityClassName": "system-node-critical",
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        },
    }
