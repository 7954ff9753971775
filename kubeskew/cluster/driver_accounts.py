"""The drivers' service accounts, with the rights of upstream's example of a driver's kubelet plugin."""

from collections.abc import Iterable
from typing import Any

from kubeskew.cluster.drivers import NAMESPACE, is_device_plugin, name_of
from kubeskew.cluster.probes import Probes
from kubeskew.cluster.readiness import wait_until
from kubeskew.cluster.state import State

_THERE = frozenset({201, 409})
_ROLE = "kubeskew:driver"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_RULES = [
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceslices"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
]


async def introduce(probes: Probes, state: State) -> None:
    """Have the API server know the drivers' accounts and what they may do, as soon as it lets us."""
    server = state.of_kind("apiserver")[0]
    found = [name_of(process) for process in state.of_kind("driver")]
    names = [name for name in found if not is_device_plugin(name)]  # these need nothing of the API server
    for path, body in _accounts(names) if names else ():

        async def refused(path: str = path, body: dict[str, Any] = body) -> str:
            status, text = await probes.request("POST", server.url(path), body=body)
            return "" if status in _THERE else f"{path}: {status} {text}"

        await wait_until("the drivers' accounts", refused)


def _accounts(names: Iterable[str]) -> Iterable[tuple[str, dict[str, Any]]]:
    yield f"{_RBAC}/clusterroles", {"metadata": {"name": _ROLE}, "rules": _RULES}
    for name in names:
        subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _ROLE}
        yield f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}}
        yield (
            f"{_RBAC}/clusterrolebindings",
            {"metadata": {"name": f"{_ROLE}:{name}"}, "subjects": [subject], "roleRef": role},
        )
