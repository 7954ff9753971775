"""Writes of core kinds as a real 1.36.3 answered them, where no recording shows it."""

from typing import Any

import pytest
from server_in_process import Caller

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMESPACED = "/api/v1/namespaces/default"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}


def messages(body: Any) -> list[str]:
    return [f"{cause['field']}: {cause['message']}" for cause in body["details"]["causes"]]


async def test_a_volume_dates_its_phase(call: Caller):
    """A new volume, and a status that changes the phase without a date of its own."""
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    made = await call.post("/api/v1/persistentvolumes", {"metadata": {"name": "pv"}, "spec": spec})

    assert made.body["status"]["lastPhaseTransitionTime"]

    old = {"phase": "Pending", "lastPhaseTransitionTime": "2020-01-01T00:00:00Z"}
    at = "/api/v1/persistentvolumes/pv/status"

    assert (await call.patch(at, {"status": old})).body["status"] == old
    status = (await call.patch(at, {"status": {"phase": "Available"}})).body["status"]
    assert status["lastPhaseTransitionTime"] > "2025"


async def test_a_class_of_volume_attributes_is_protected(call: Caller):
    """It begins with the finalizer that a controller removes."""
    body = {"metadata": {"name": "fast"}, "driverName": "d.example.com", "parameters": {"a": "b"}}
    made = await call.post("/apis/storage.k8s.io/v1/volumeattributesclasses", body)

    assert made.body["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]


async def test_who_deletes_a_job_without_a_policy_is_warned(call: Caller):
    """Its pods stay; with a policy nobody is warned."""
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    for name in ("a", "b"):
        await call.post(jobs, {"metadata": {"name": name}, "spec": {"template": template}})

    assert "child pods are preserved by default" in (await call.delete(f"{jobs}/a")).warnings[0]
    assert not (await call.delete(f"{jobs}/b?propagationPolicy=Orphan")).warnings


async def test_a_field_that_is_dropped_is_no_change(call: Caller):
    """The generation counts what is left of a change, once fields of gates that are off are gone."""
    sets = "/apis/apps/v1/namespaces/default/deployments"
    await call.post(sets, {"metadata": {"name": "d"}, "spec": {"selector": SELECTOR, "template": TEMPLATE}})
    hooks = {"spec": {"containers": [{"name": "c", "image": "i", "lifecycle": {"stopSignal": "SIGHUP"}}]}}
    changed = await call.patch(f"{sets}/d", {"spec": {"template": hooks}}, "strategic")

    assert changed.status == 200
    assert "stopSignal" not in str(changed.body["spec"])


async def test_changes_are_checked_once(call: Caller):
    """A changed daemon set has each cause once, since 1.34."""
    sets = "/apis/apps/v1/namespaces/default/daemonsets"
    await call.post(sets, {"metadata": {"name": "d"}, "spec": {"selector": SELECTOR, "template": TEMPLATE}})
    refused = await call.patch(f"{sets}/d", {"spec": {"minReadySeconds": -1}})

    assert messages(refused.body) == [
        "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"
    ]


@pytest.mark.parametrize(
    ("features", "wanted"),
    [
        (["A", "B/c"], []),
        (["b"], ["status.declaredFeatures[0]"]),
        (["B", "A"], ["status.declaredFeatures[1]"]),
        (["A", "A"], ["status.declaredFeatures[1]"]),
    ],
)
async def test_features_of_nodes_are_names_in_order(call: Caller, features: list[str], wanted: list[str]):
    """Each name begins with a capital letter, and comes once."""
    node = {"metadata": {"name": "n"}, "status": {"declaredFeatures": features}}
    answer = await call.post("/api/v1/nodes?dryRun=All", node)

    assert [cause["field"] for cause in answer.body.get("details", {}).get("causes", [])] == wanted


async def test_a_key_that_is_none_is_warned_of(call: Caller):
    """The text is that of Go's X509KeyPair."""
    data = {"tls.crt": "YQ==", "tls.key": "YQ=="}
    body = {"metadata": {"name": "s"}, "type": "kubernetes.io/tls", "data": data}
    answer = await call.post(f"{NAMESPACED}/secrets?dryRun=All", body)

    assert answer.warnings == ['299 - "tls: failed to find any PEM data in certificate input"']


async def test_an_immutable_struct_is_shown_with_gos_names(call: Caller):
    """Every field of the internal type, in its order."""
    parent = {"group": "", "resource": "services", "namespace": "n", "name": "s"}
    addresses = "/apis/networking.k8s.io/v1/ipaddresses"
    await call.post(addresses, {"metadata": {"name": "192.168.9.1"}, "spec": {"parentRef": parent}})
    refused = await call.patch(f"{addresses}/192.168.9.1", {"spec": {"parentRef": {"name": "other"}}})

    shown = '{"Group":"","Resource":"services","Namespace":"n","Name":"other"}'
    assert messages(refused.body) == [f"spec.parentRef: Invalid value: {shown}: field is immutable"]


async def test_a_job_of_a_suspended_set_shows_its_pods_spec(call: Caller):
    """A suspended job's change of more than resources is an error of the pods' spec."""
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    await call.post(jobs, {"metadata": {"name": "s"}, "spec": {"suspend": True, "template": template}})
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}}}
    refused = await call.patch(f"{jobs}/s", image, "strategic")

    assert [cause["field"] for cause in refused.body["details"]["causes"]] == ["spec.template.spec"]
    assert '"RestartPolicy":"Never"' in refused.body["message"]
