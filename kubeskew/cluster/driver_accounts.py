"""The drivers' service accounts, with the rights of upstream's examples: of a driver's kubelet plugin, and of
a driver's controller.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kubeskew.apimachinery.known_names import CONTROLLER
from kubeskew.cluster import drivers
from kubeskew.cluster.drivers import (
    KIND,
    NAMESPACE,
    controller_account,
    is_device_plugin,
    name_of,
)
from kubeskew.cluster.probes import Probes
from kubeskew.cluster.readiness import wait_until
from kubeskew.cluster.state import State
from kubeskew.kubelet.drivers.settings import plural_of

_THERE = frozenset({201, 409})
_ROLE = "kubeskew:driver"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_RULES = [
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
    # As KEP-3063 had drafted it a plugin receives only the UID of a claim, and has to find it.
    {"apiGroups": ["cdi.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceslices"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
]
# The rights in upstream's example for the controller of a driver that allocates claims.
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
    # As KEP-4381 had drafted it: what the controller makes of the driver's own parameters.
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceclaimparameters"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
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
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},  # which own their slices
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "update"]},
]


async def introduce(probes: Probes, state: State) -> None:
    """Creates the drivers' accounts and their rights as soon as the API server allows it."""
    server = state.of_kind("apiserver")[0]
    found = [name_of(process) for process in state.of_kind(KIND)]
    names = [name for name in found if not is_device_plugin(name)]  # these do not use the API server
    controlled = [name_of(process) for process in state.of_kind(CONTROLLER)]
    vendors = {name: vendor for name in controlled if (vendor := drivers.parameters(state.nodes, name))}
    accounts = [*_accounts(names), *_controllers(controlled)] if names else []
    accounts += [entry for name, vendor in vendors.items() for entry in _parameters(name, *vendor)]
    for path, body in accounts:

        async def refused(path: str = path, body: dict[str, Any] = body) -> str:
            status, text = await probes.request("POST", server.url(path), body=body)
            return "" if status in _THERE else f"{path}: {status} {text}"

        await wait_until("the drivers' accounts", refused)


def _accounts(names: Iterable[str]) -> Iterable[tuple[str, dict[str, Any]]]:
    yield f"{_RBAC}/clusterroles", {"metadata": {"name": _ROLE}, "rules": _RULES}
    for name in names:
        yield _account(name)
        yield f"{_RBAC}/clusterrolebindings", _binding(_ROLE, name, name)


def _controllers(names: Sequence[str]) -> Iterable[tuple[str, dict[str, Any]]]:
    if names:
        yield f"{_RBAC}/clusterroles", {"metadata": {"name": _CONTROLLER_ROLE}, "rules": _CONTROLLER_RULES}
    for name in names:
        account = controller_account(name)
        yield _account(account)
        yield f"{_RBAC}/clusterrolebindings", _binding(_CONTROLLER_ROLE, name, account)
        own = f"{_CONTROLLER_ROLE}:{name}"
        rule = {"apiGroups": [name], "resources": ["nodecapacities"], "verbs": ["*"]}
        yield f"{_RBAC}/clusterroles", {"metadata": {"name": own}, "rules": [rule]}
        yield f"{_RBAC}/clusterrolebindings", _binding(own, name, account)


def _parameters(driver: str, group: str, kind: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """A driver's controller and the scheduler may read the driver's own parameters.

    The draft of KEP-4381 leaves it to whoever deploys a driver to grant them to the scheduler.
    """
    name = f"kubeskew:driver-parameters:{driver}"
    rule = {"apiGroups": [group], "resources": [plural_of(kind)], "verbs": ["get", "list", "watch"]}
    yield f"{_RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]}
    binding = _binding("kubeskew:driver-parameters", driver, controller_account(driver))
    binding["roleRef"]["name"] = name
    binding["subjects"].append(
        {"kind": "User", "name": "system:kube-scheduler", "apiGroup": "rbac.authorization.k8s.io"}
    )
    yield f"{_RBAC}/clusterrolebindings", binding


def _account(name: str) -> tuple[str, dict[str, Any]]:
    return f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}}


def _binding(role: str, driver: str, account: str) -> dict[str, Any]:
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    return {
        "metadata": {"name": f"{role}:{driver}"},
        "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
    }
