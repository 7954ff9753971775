"""Flow schemas and priority levels that every cluster begins with.

Source: k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap/default.go, 1.36.
"""

from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery.objects import Object

GROUP = "flowcontrol.apiserver.k8s.io"
_ANNOTATIONS = {"apf.kubernetes.io/autoupdate-spec": "true"}
_ALL_RESOURCES = {
    "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"],
}  # fmt: skip
_ALL_PATHS = {"verbs": ["*"], "nonResourceURLs": ["*"]}
_EVERYTHING = {"resourceRules": [_ALL_RESOURCES], "nonResourceRules": [_ALL_PATHS]}
_QUEUES = (64, 6, 50)

# name: shares, lendable percent, (queues, hand size, length limit) or None where it rejects.
_LEVELS: dict[str, tuple[int, int, tuple[int, int, int] | None]] = {
    "catch-all": (5, 0, None),
    "system": (30, 33, _QUEUES),
    "node-high": (40, 25, _QUEUES),
    "leader-election": (10, 0, (16, 4, 50)),
    "workload-high": (40, 50, (128, 6, 50)),
    "workload-low": (100, 90, (128, 6, 50)),
    "global-default": (20, 50, (128, 6, 50)),
}


def _groups(*names: str) -> list[Object]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[Object]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


_SYSTEM_ACCOUNTS = {
    "kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"},
}  # fmt: skip
_MANAGERS = _users("system:kube-controller-manager", "system:kube-scheduler")
_NODES = _groups("system:nodes")
_EVERYBODY = _groups("system:unauthenticated", "system:authenticated")


def _resources(verbs: list[str], group: str, resources: list[str], *, cluster: bool = False) -> Object:
    rule: Object = {"verbs": verbs, "apiGroups": [group], "resources": resources}
    return {**rule, **({"clusterScope": True} if cluster else {}), "namespaces": ["*"]}


_LOCKING = ["get", "create", "update"]
_LEASES = _resources(_LOCKING, "coordination.k8s.io", ["leases"])
# name, precedence, level, distinguisher, subjects, rules.
_SCHEMAS: tuple[tuple[str, int, str, str, list[Object], Object], ...] = (
    ("exempt", 1, "exempt", "", _groups("system:masters"), _EVERYTHING),
    (
        "probes",
        2,
        "exempt",
        "",
        _EVERYBODY,
        {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]},
    ),
    (
        "system-leader-election",
        100,
        "leader-election",
        "ByUser",
        [*_MANAGERS, _SYSTEM_ACCOUNTS],
        {"resourceRules": [_LEASES]},
    ),
    (
        "system-node-high",
        400,
        "node-high",
        "ByUser",
        _NODES,
        {
            "resourceRules": [
                _resources(["*"], "", ["nodes", "nodes/status"], cluster=True),
                _resources(["*"], "coordination.k8s.io", ["leases"]),
            ]
        },
    ),
    ("system-nodes", 500, "system", "ByUser", _NODES, _EVERYTHING),
    ("kube-controller-manager", 800, "workload-high", "ByNamespace", _MANAGERS[:1], _EVERYTHING),
    ("kube-scheduler", 800, "workload-high", "ByNamespace", _MANAGERS[1:], _EVERYTHING),
    ("kube-system-service-accounts", 900, "workload-high", "ByNamespace", [_SYSTEM_ACCOUNTS], _EVERYTHING),
    (
        "service-accounts",
        9000,
        "workload-low",
        "ByUser",
        _groups("system:serviceaccounts"),
        _EVERYTHING,
    ),
    ("global-default", 9900, "global-default", "ByUser", _EVERYBODY, _EVERYTHING),
    ("catch-all", 10000, "catch-all", "ByUser", _EVERYBODY, _EVERYTHING),
)


# For locks that were endpoints or config maps (pkg/apis/flowcontrol/bootstrap/default.go, 1.26 to 1.33).
_OLD_SCHEMAS: tuple[tuple[str, int, str, str, list[Object], Object], ...] = (
    (
        "endpoint-controller",
        150,
        "workload-high",
        "ByUser",
        [
            *_MANAGERS[:1],
            *(
                {"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": name}}
                for name in ("endpoint-controller", "endpointslicemirroring-controller")
            ),
        ],
        {"resourceRules": [_resources(_LOCKING, "", ["endpoints"])]},
    ),
    (
        "workload-leader-election",
        200,
        "leader-election",
        "ByUser",
        [_SYSTEM_ACCOUNTS],
        {"resourceRules": [_resources(_LOCKING, "", ["endpoints", "configmaps"]), _LEASES]},
    ),
)


def levels(version: str) -> Iterator[tuple[str, Object]]:
    """Each comes with the path that it is posted to."""
    exempt = {"lendablePercent": 0, "nominalConcurrencyShares": 0}
    yield _made(version, "PriorityLevelConfiguration", "exempt", {"type": "Exempt", "exempt": exempt})
    for name, (shares, lendable, queuing) in _LEVELS.items():
        response: Object = {"type": "Reject"}
        if queuing is not None:
            queues, hand, length = queuing
            queuing_spec = {"queues": queues, "handSize": hand, "queueLengthLimit": length}
            response = {"type": "Queue", "queuing": queuing_spec}
        limited: dict[str, Any] = {"nominalConcurrencyShares": shares, "lendablePercent": lendable}
        limited["limitResponse"] = response
        yield _made(version, "PriorityLevelConfiguration", name, {"type": "Limited", "limited": limited})


def schemas(version: str, *, lease_locks_only: bool) -> Iterator[tuple[str, Object]]:
    """Yields the flow schemas of a release, with the path each is posted to; their levels must be there."""
    old = () if lease_locks_only else _OLD_SCHEMAS
    for name, precedence, level, distinguisher, subjects, rules in (*_SCHEMAS, *old):
        spec: Object = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
        if distinguisher:
            spec["distinguisherMethod"] = {"type": distinguisher}
        yield _made(version, "FlowSchema", name, {**spec, "rules": [{"subjects": subjects, **rules}]})


def _made(version: str, kind: str, name: str, spec: Object) -> tuple[str, Object]:
    metadata: Object = {"name": name, "annotations": dict(_ANNOTATIONS)}
    obj = {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata, "spec": spec}
    return f"/apis/{GROUP}/{version}/{kind.lower()}s", obj
