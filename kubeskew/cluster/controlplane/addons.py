"""The add-ons that kind installs, and the metrics server.

CoreDNS, kube-proxy, kindnet and the local-path provisioner run in fake containers: they resolve no names,
balance no services and create no volumes. The metrics server is a process of the cluster; one pod of a
Deployment shows it, as static pods show the control plane. Its objects are those of its components.yaml
(kubernetes-sigs/metrics-server, manifests/).

Sources: kubeadm's add-ons (cmd/kubeadm/app/phases/addons, 1.36); pkg/build/nodeimage/const_{cni,storage}.go
of kubernetes-sigs/kind in August 2026. Volumes and probes are left out.
"""

import json
from collections.abc import Iterable
from importlib import resources
from string import Template
from typing import Any

import yaml

from kubeskew.apimachinery.conditions import is_condition_true
from kubeskew.apimachinery.known_names import METRICS_SERVER, NETWORK
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.config import CONTROL_PLANE
from kubeskew.cluster.controlplane import static_pods
from kubeskew.cluster.probes import Probes
from kubeskew.cluster.readiness import wait_until
from kubeskew.cluster.state import Process, State

_FOUND = 200
_THERE = frozenset({201, 409})
_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "DaemonSet": "/apis/apps/v1/namespaces/{namespace}/daemonsets",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "APIService": "/apis/apiregistration.k8s.io/v1/apiservices",
}
# CoreDNSVersion in cmd/kubeadm/app/constants/constants.go, 1.31 to 1.36, at the newest patches.
_COREDNS = {
    26: "v1.9.3", 27: "v1.10.1", 28: "v1.10.1", 29: "v1.11.1", 30: "v1.11.1", 31: "v1.11.3", 32: "v1.11.3",
    33: "v1.12.0", 34: "v1.12.1", 35: "v1.13.1", 36: "v1.14.2",
}  # fmt: skip
NAMESPACE = "kube-system"
METRICS_SERVER_USER = f"system:serviceaccount:{NAMESPACE}:{METRICS_SERVER}"
METRICS_API_ADDRESS = (
    "127.0.0.2"  # its port is that of the process, which has health and metrics on 127.0.0.1
)
_API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"


def objects(version: str) -> list[dict[str, Any]]:
    minor = min(max(Version.parse(version).minor, min(_COREDNS)), max(_COREDNS))
    text = resources.files(__package__).joinpath("addons.yaml").read_text()
    filled = Template(text).substitute(
        coredns=_COREDNS[minor], kube_proxy=static_pods.image("kube-proxy", version)
    )
    return [*yaml.safe_load_all(filled)]


async def install(probes: Probes, state: State) -> None:
    """Creates missing add-ons, and labels control-plane nodes with their role, which a kubelet may not set
    itself.
    """
    server = state.of_kind("apiserver")[0]
    for node in static_pods.nodes(state):
        await _mark(probes, server.url(f"/api/v1/nodes/{node}"))
    await create(probes, server, objects(server.version), "the add-ons")


async def create(probes: Probes, server: Process, objects: Iterable[dict[str, Any]], what: str) -> None:
    """Creates missing objects as soon as the server accepts them."""
    for obj in objects:
        path = _PATHS[obj["kind"]].format(namespace=obj["metadata"].get("namespace"))

        async def refused(path: str = path, obj: dict[str, Any] = obj) -> str:
            # Creating a service again would not show that it exists: its address is taken, by itself.
            there, _ = await probes.request("GET", server.url(f"{path}/{obj['metadata']['name']}"))
            if there == _FOUND:
                return ""
            status, text = await probes.request("POST", server.url(path), body=obj)
            return "" if status in _THERE else f"{path}: {status} {text}"

        await wait_until(what, refused)


async def _mark(probes: Probes, url: str) -> None:
    """Labels a node as kubeadm's phase mark-control-plane does."""

    async def unmarked() -> str:
        status, text = await probes.request("GET", url)
        if status != _FOUND:
            return f"{url}: {status} {text}"
        node = json.loads(text)
        labels = node["metadata"]["labels"]
        if CONTROL_PLANE in labels:
            return ""
        labels[CONTROL_PLANE] = ""
        status, text = await probes.request("PUT", url, body=node)  # a conflict is tried again
        return "" if status == _FOUND else f"{url}: {status} {text}"

    await wait_until("the role of the control-plane node", unmarked)


def local_services(state: State) -> dict[str, str]:
    """HOST:PORT by NAMESPACE/NAME of the Services behind which there is a process of the cluster."""
    found = state.processes.get(METRICS_SERVER)
    if found is None:
        return {}
    return {f"{NAMESPACE}/{METRICS_SERVER}": f"{METRICS_API_ADDRESS}:{found.port}"}


def metrics_server_objects() -> list[dict[str, Any]]:
    return _read("metrics_server.yaml")


def network_objects() -> list[dict[str, Any]]:
    """The rights of the component that does the work of kube-proxy and of those who enforce policies."""
    return _read("network.yaml")


def _read(name: str) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all(resources.files(__package__).joinpath(name).read_text())]


async def introduce_metrics_server(probes: Probes, state: State) -> None:
    """Creates missing objects of the metrics server, if the cluster has one."""
    if METRICS_SERVER in state.processes:
        await create(
            probes, state.of_kind("apiserver")[0], metrics_server_objects(), "the metrics server's objects"
        )


async def introduce_network(probes: Probes, state: State) -> None:
    """Creates missing rights of the network component, if the cluster has one."""
    if NETWORK in state.processes:
        await create(probes, state.of_kind("apiserver")[0], network_objects(), "the network's rights")


async def wait_metrics_api(probes: Probes, state: State) -> None:
    """Returns when the API servers have found the metrics server, or at once if none runs."""
    process, server = state.processes.get(METRICS_SERVER), probes.server_of(state)
    if process is None or server is None or not probes.alive(process):
        return

    async def missing() -> str:
        service = await probes.json(server.url(_API_SERVICE)) or {}
        if is_condition_true(service, "Available"):
            return ""
        conditions = (service.get("status") or {}).get("conditions")
        return f"v1beta1.metrics.k8s.io is not available: {json.dumps(conditions)}"

    await wait_until("the metrics API", missing)
