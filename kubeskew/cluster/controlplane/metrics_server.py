"""Introduces the metrics server to the cluster: its account and roles, its service, the API that it serves.

The server is a process of the cluster, and one pod of a Deployment shows it, as static pods show the control
plane. The objects are those of its components.yaml (kubernetes-sigs/metrics-server, manifests/).
"""

import json
from importlib import resources
from typing import Any

import yaml

from kubeskew.apimachinery.component_names import METRICS_SERVER
from kubeskew.cluster.controlplane import addons
from kubeskew.cluster.probes import Probes
from kubeskew.cluster.readiness import wait_until
from kubeskew.cluster.state import State

NAMESPACE = "kube-system"
USER = f"system:serviceaccount:{NAMESPACE}:{METRICS_SERVER}"
API_ADDRESS = "127.0.0.2"  # its port is that of the process, which has health and metrics on 127.0.0.1
_API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"


def flags_of_servers(state: State) -> list[str]:
    """Returns the flags by which API servers find the metrics server behind its service."""
    found = state.processes.get(METRICS_SERVER)
    if found is None:
        return []
    return ["--webhook-service-map", f"{NAMESPACE}/{METRICS_SERVER}={API_ADDRESS}:{found.port}"]


def objects() -> list[dict[str, Any]]:
    """Returns the objects by which a cluster knows a metrics server."""
    text = resources.files(__package__).joinpath("metrics_server.yaml").read_text()
    return [*yaml.safe_load_all(text)]


async def introduce(probes: Probes, state: State) -> None:
    """Creates the objects of the metrics server that are not there yet, if there is to be one."""
    if METRICS_SERVER in state.processes:
        await addons.create(probes, state.of_kind("apiserver")[0], objects(), "the metrics server's objects")


async def wait_available(probes: Probes, state: State) -> None:
    """Returns when the API servers have found the metrics server, if one runs."""
    process, server = state.processes.get(METRICS_SERVER), probes.server_of(state)
    if process is None or server is None or not probes.alive(process):
        return

    async def missing() -> str:
        conditions = ((await probes.json(server.url(_API_SERVICE)) or {}).get("status") or {}).get(
            "conditions"
        )
        available = any(each["type"] == "Available" and each["status"] == "True" for each in conditions or ())
        return "" if available else f"v1beta1.metrics.k8s.io is not available: {json.dumps(conditions)}"

    await wait_until("the metrics API", missing)
