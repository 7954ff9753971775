"""Options that a pod or a template uses already stay allowed when the gate for them is off."""

from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from rule_checks import Rules

RULE = {"exitCodes": {"operator": "In", "values": [1]}}
ZERO_SLEEP = {"preStop": {"sleep": {"seconds": 0}}}
EXACT = {"key": "k", "operator": "Gt", "value": "5"}
RESIZES = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
EVERYTHING = {"restartPolicy": "Always", "restartPolicyRules": [{**RULE, "action": "RestartAllContainers"}]}


@cache
def rules(kind: str, minor: int) -> Rules:
    return Rules({"pods": "", "podtemplates": "", "cronjobs": "batch"}.get(kind, "apps"), kind, minor)


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", **fields}]}


def nodes_with(value: str) -> dict[str, Any]:
    """Node affinity that requires a value of a label."""
    expression = {"key": "zone", "operator": "In", "values": [value]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def holder(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """An object of the kind with this pod spec in it."""
    if kind == "pods":
        return {"metadata": {"name": "x"}, "spec": spec}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    if kind == "podtemplates":
        return {"metadata": {"name": "x"}, "template": template}
    if kind == "cronjobs":
        template["spec"] = {**spec, "restartPolicy": "Never"}
        job = {"spec": {"template": template}}
        return {"metadata": {"name": "x"}, "spec": {"schedule": "* * * * *", "jobTemplate": job}}
    return {
        "metadata": {"name": "x"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


@pytest.mark.parametrize("kind", ["pods", "podtemplates", "deployments", "statefulsets", "cronjobs"])
@pytest.mark.parametrize(
    ("minor", "spec"),
    [
        pytest.param(31, container(env=[{"name": "1 a"}]), id="relaxed_env"),
        pytest.param(31, {**container(), "dnsConfig": {"searches": ["a_b"]}}, id="relaxed_dns"),
        pytest.param(32, container(lifecycle=ZERO_SLEEP), id="zero_sleep"),
        pytest.param(34, container(restartPolicy="Never"), id="restart_rules"),
        pytest.param(35, container(**EVERYTHING), id="restart_all"),
        pytest.param(35, {**container(), "tolerations": [EXACT]}, id="comparisons"),
        pytest.param(35, {**container(), "hostNetwork": True, "hostUsers": False}, id="host_network_users"),
        pytest.param(
            35, {**container(), "securityContext": {"seLinuxChangePolicy": "MountOption"}}, id="selinux"
        ),
        pytest.param(
            32,
            {
                **container(),
                "initContainers": [
                    {"name": "s", "image": "i", "restartPolicy": "Always", "resizePolicy": RESIZES}
                ],
            },
            id="sidecar_resize",
        ),
        pytest.param(36, {**container(), "affinity": nodes_with("-1")}, id="any_affinity_values"),
    ],
)
def test_what_is_used_stays(kind: str, minor: int, spec: dict[str, Any]) -> None:
    """A new object may not have it; an old one that has it may change otherwise."""
    if kind == "statefulsets" and minor < 33:
        return  # whose templates are not looked at
    those = rules(kind, minor)
    old = those.read(holder(kind, spec))
    new = deepcopy(old)
    new["metadata"]["labels"] = {"c": "d"}

    assert those.strategy.validate(deepcopy(old), those.context)
    assert not those.strategy.validate_update(new, old, those.context)
