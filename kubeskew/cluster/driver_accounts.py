"""The drivers' service accounts, with the rights of upstream's example of a driver's kubelet plugin."""

from collections.abc import Iterable, Sequence
from typing import Any

from kubeskew.cluster.drivers import NAMESPACE, entries, is_device_plugin, name_of
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
# What upstream's example gives to the controller of a driver that allocates claims.
_CONTROLLER_ROLE = "kubeskew:driver-controller"
_CONTROLLER_RULES = [
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceclaims", "resourceclaims/status"],
        "verbs": ["get", "list", "watch", "update", "patch"],
    },
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["podschedulings", "podschedulingcontexts"],
        "verbs": ["get", "list", "watch"],
    },
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["podschedulings/status", "podschedulingcontexts/status"],
        "verbs": ["update", "patch"],
    },
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceclasses", "deviceclasses"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    # As KEP-3063 had drafted it; the group of a driver's own objects is given to that driver alone.
    {
        "apiGroups": ["cdi.k8s.io"],
        "resources": ["resourceclaims", "resourceclaims/status"],
        "verbs": ["get", "list", "watch", "update", "patch"],
    },
    {"apiGroups": ["cdi.k8s.io"], "resources": ["resourceclasses"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["create"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "update"]},
]


async def introduce(probes: Probes, state: State) -> None:
    """Have the API server know the drivers' accounts and what they may do, as soon as it lets us."""
    server = state.of_kind("apiserver")[0]
    found = [name_of(process) for process in state.of_kind("driver")]
    names = [name for name in found if not is_device_plugin(name)]  # these need nothing of the API server
    accounts = [*_accounts(names), *_controllers(have_controller(state, names))] if names else []
    for path, body in accounts:

        async def refused(path: str = path, body: dict[str, Any] = body) -> str:
            status, text = await probes.request("POST", server.url(path), body=body)
            return "" if status in _THERE else f"{path}: {status} {text}"

        await wait_until("the drivers' accounts", refused)


def _accounts(names: Iterable[str]) -> Iterable[tuple[str, dict[str, Any]]]:
    yield f"{_RBAC}/clusterroles", {"metadata": {"name": _ROLE}, "rules": _RULES}
    for name in names:
        yield f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}}
        yield f"{_RBAC}/clusterrolebindings", _binding(_ROLE, name)


def _controllers(names: Sequence[str]) -> Iterable[tuple[str, dict[str, Any]]]:
    if names:
        yield f"{_RBAC}/clusterroles", {"metadata": {"name": _CONTROLLER_ROLE}, "rules": _CONTROLLER_RULES}
    for name in names:
        yield f"{_RBAC}/clusterrolebindings", _binding(_CONTROLLER_ROLE, name)
        own = f"{_CONTROLLER_ROLE}:{name}"
        rule = {"apiGroups": [name], "resources": ["nodecapacities"], "verbs": ["*"]}
        yield f"{_RBAC}/clusterroles", {"metadata": {"name": own}, "rules": [rule]}
        yield f"{_RBAC}/clusterrolebindings", _binding(own, name)


def _binding(role: str, name: str) -> dict[str, Any]:
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    return {
        "metadata": {"name": f"{role}:{name}"},
        "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
    }


def have_controller(state: State, names: Iterable[str]) -> list[str]:
    """Returns the drivers of these names whose entry on some node asks for a controller."""
    nodes = [entries(node) for node in state.nodes.values()]
    return [name for name in names if any((node.get(name) or {}).get("controller") for node in nodes)]
