"""Rules of priority, runtime and storage classes, and which of them is the default."""

from typing import Any

import pytest
from server_in_process import Caller

PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
FIELD = {"key": "zone", "values": ["a"]}


def named(name: str = "x", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


RULES = [
    (
        PRIORITIES,
        named("system-mine", value=1),
        (
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system "
            "use only. error: system-mine is not a known system priority class"
        ),
    ),
    (
        PRIORITIES,
        named(value=2000000000),
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
    ),
    (
        PRIORITIES,
        named(value=1, preemptionPolicy="Ever"),
        'preemptionPolicy: Unsupported value: "Ever": supported values: "PreemptLowerPriority", "Never"',
    ),
    (
        STORAGE,
        named(provisioner="x", reclaimPolicy="Keep"),
        'reclaimPolicy: Unsupported value: "Keep": supported values: "Delete", "Retain"',
    ),
    (
        STORAGE,
        named(provisioner="x", volumeBindingMode="Late"),
        'volumeBindingMode: Unsupported value: "Late": supported values: "Immediate", "WaitForFirstConsumer"',
    ),
    (
        STORAGE,
        named(provisioner="x", allowedTopologies=[{"matchLabelExpressions": [FIELD, FIELD]}]),
        'allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "zone"',
    ),
]


@pytest.mark.parametrize(("path", "obj", "why"), RULES)
async def test_rules(api: Caller, path: str, obj: dict[str, Any], why: str) -> None:
    """An error in a new class is reported with its field."""
    answer = await api.post(path, obj)

    assert answer.status == 422, answer.body
    assert answer.body["message"].endswith(f'"{obj["metadata"]["name"]}" is invalid: {why}')


CHANGES = [
    (PRIORITIES, named(value=1), {"value": 2}, "value: Forbidden: may not be changed in an update."),
    (RUNTIMES, named(handler="a"), {"handler": "b"}, 'handler: Invalid value: "b": field is immutable'),
    (
        STORAGE,
        named(provisioner="a"),
        {"provisioner": "b"},
        'provisioner: Invalid value: "b": field is immutable',
    ),
]


@pytest.mark.parametrize(("path", "obj", "change", "why"), CHANGES)
async def test_changes(api: Caller, path: str, obj: dict[str, Any], change: dict[str, Any], why: str) -> None:
    """The fields that define a class cannot be changed."""
    assert (await api.post(path, obj)).status == 201

    answer = await api.patch(f"{path}/x", change)

    assert answer.body["message"].endswith(f'"x" is invalid: {why}')


async def test_the_default_priority(api: Caller) -> None:
    """One priority class is the default, which pods get; the system's own classes cannot be deleted."""
    await api.post(PRIORITIES, named("usual", value=7, globalDefault=True))
    second = await api.post(PRIORITIES, named("other", value=8, globalDefault=True))
    pod = named(spec={"containers": [{"name": "c", "image": "i"}]})
    made = (await api.post("/api/v1/namespaces/default/pods", pod)).body["spec"]
    kept = await api.delete(f"{PRIORITIES}/system-node-critical")

    assert second.body["message"] == (
        'priorityclasses.scheduling.k8s.io "other" is forbidden: PriorityClass usual is already marked as '
        "default. Only one default can exist"
    )
    assert (made["priorityClassName"], made["priority"]) == ("usual", 7)
    assert kept.body["message"].endswith("this is a system priority class and cannot be deleted")
    assert (await api.patch(f"{PRIORITIES}/usual", {"description": "d"})).status == 200
