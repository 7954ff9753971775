"""Values of labels that node affinity requires: which releases look at them, and what stays."""

from copy import deepcopy
from typing import Any

import pytest
from rule_checks import Rules

IMPOSSIBLE = "a valid label must be an empty string or consist of alphanumeric characters"


def selector(value: str) -> dict[str, Any]:
    return {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [value]}]}]
    }


def volume(value: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    spec |= {"hostPath": {"path": "/data"}, "nodeAffinity": {"required": selector(value)}}
    return {"metadata": {"name": "x"}, "spec": spec}


def pod(value: str) -> dict[str, Any]:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector(value)}}
    return {
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "affinity": affinity},
    }


KINDS = [
    ("pods", pod, "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
    ("persistentvolumes", volume, "spec.nodeAffinity.required"),
]


@pytest.mark.parametrize(("kind", "made", "path"), KINDS)
def test_new_objects_since_1_33_have_values_that_a_label_can_have(kind: str, made: Any, path: str) -> None:
    """A value that no label can have is refused since 1.33, and taken by releases before it."""
    found = {}
    for minor in (32, 33):
        rules = Rules("", kind, minor)
        found[minor] = rules.strategy.validate(rules.read(made("-1")), rules.context)

    assert found[32] == []
    (error,) = found[33]
    assert error.path == f"{path}.nodeSelectorTerms[0].matchExpressions[0].values[0]"
    assert IMPOSSIBLE in str(error)


@pytest.mark.parametrize(("kind", "made", "_path"), KINDS)
def test_old_objects_keep_theirs(kind: str, made: Any, _path: str) -> None:
    """An object that an older release took may change otherwise; one without may not get such a value."""
    rules = Rules("", kind, 36)
    old = rules.read(made("-1"))
    new = deepcopy(old)
    new["metadata"]["labels"] = {"c": "d"}

    assert errors_of_change(rules, new, old) == []
    assert any(IMPOSSIBLE in text for text in errors_of_change(rules, old, rules.read(made("a"))))


def errors_of_change(rules: Rules, new: Any, old: Any) -> list[str]:
    return [str(error) for error in rules.strategy.check_change(new, old, rules.context, [])]
