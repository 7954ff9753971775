"""Rules of the smaller API groups: what is wrong with an object, where, and in which words."""

from typing import Any

import yaml
from recorded import DATA
from server_in_process import Caller

ROWS = yaml.safe_load((DATA / "group-rules.yaml").read_text())

INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}


def errors(answer: Any) -> list[str]:
    assert answer.status == 422, answer.body
    return [f"{cause['field']}: {cause['message']}" for cause in answer.body["details"]["causes"]]


async def test_new_objects(api: Caller) -> None:
    """Each error of a new object is reported, in upstream's order."""
    for row in ROWS["new"]:
        answer = await api.post(row["path"], {"metadata": {"name": "x"}, **row["object"]})

        assert errors(answer) == row["errors"]


async def test_changes(api: Caller) -> None:
    """A change of an immutable field is refused."""
    for row in ROWS["changed"]:
        made = await api.post(row["path"], {"metadata": {"name": "x"}, **row["object"]})
        assert made.status == 201, made.body

        assert errors(await api.patch(f"{row['path']}/x", row["change"])) == row["errors"]


async def test_a_changed_policy_is_looked_at_once(api: Caller) -> None:
    """The spec of a changed network policy is checked once, since 1.36; its metadata are checked before, as
    those of anything new and of anything changed.
    """
    await api.post(POLICIES, {"metadata": {"name": "x"}, "spec": {"podSelector": {}}})
    change = {"spec": {"policyTypes": ["X"]}, "metadata": {"labels": {"a": "!"}}}
    answer = await api.patch(f"{POLICIES}/x", change)

    fields = [error.partition(": ")[0] for error in errors(answer)]
    assert fields == ["metadata.labels"] * 3 + ["spec.policyTypes[0]"]


async def test_names_of_budgets(api: Caller) -> None:
    """A disruption budget may be called what a path can hold."""
    assert (await api.post(BUDGETS, {"metadata": {"name": "Under_score"}})).status == 201
    answer = await api.post(BUDGETS, {"metadata": {"name": "a%b"}})
    assert errors(answer) == ["metadata.name: Invalid value: \"a%b\": may not contain '%'"]


async def test_status_of_an_ingress(api: Caller) -> None:
    """Addresses are checked, and what was there may stay as it is."""
    await api.post(INGRESSES, {"metadata": {"name": "x"}, "spec": {"defaultBackend": BACKEND}})
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3"}]}}}
    text = 'Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'
    answer = await api.patch(f"{INGRESSES}/x/status", status)
    assert errors(answer) == [f"status.loadBalancer.ingress[0].ip: {text}"]


async def test_warnings(api: Caller) -> None:
    """An ingress with the deprecated class annotation is accepted with a warning."""
    annotated = {"name": "x", "annotations": {"kubernetes.io/ingress.class": "nginx"}}
    answer = await api.post(INGRESSES, {"metadata": annotated, "spec": {"defaultBackend": BACKEND}})
    instead = "please use 'spec.ingressClassName' instead"
    text = rf"annotation \"kubernetes.io/ingress.class\" is deprecated, {instead}"
    assert answer.warnings == [f'299 - "{text}"']


async def test_labels_count_in_slices(api: Caller) -> None:
    """An endpoint slice's generation grows with its labels too, but not with annotations."""
    await api.post(SLICES, {"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": [], "ports": []})
    annotated = await api.patch(f"{SLICES}/x", {"metadata": {"annotations": {"a": "b"}}})
    labelled = await api.patch(f"{SLICES}/x", {"metadata": {"labels": {"a": "b"}}})
    assert [one.body["metadata"]["generation"] for one in (annotated, labelled)] == [1, 2]


EVENTS, CORE_EVENTS = (
    f"{group}/namespaces/default/events" for group in ("/apis/events.k8s.io/v1", "/api/v1")
)
EVENT = {
    "metadata": {"name": "e"},
    "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    "reason": "Seen",
    "action": "See",
    "type": "Normal",
    "note": "text",
    "eventTime": "2024-01-01T00:00:00.000000Z",
    "reportingController": "x.io/c",
    "reportingInstance": "i",
}
SEEN_AGAIN = {"count": 2, "lastObservedTime": "2024-01-01T00:00:00.000000Z"}


async def test_only_the_series_of_an_event_changes(api: Caller) -> None:
    """In the newer group; the older lets everything be written, and looks at no metadata."""
    assert (await api.post(EVENTS, EVENT)).status == 201
    change = {"note": "other", "type": "Warning", "series": {**SEEN_AGAIN, "count": 1}}
    assert errors(await api.patch(f"{EVENTS}/e", change)) == [
        'series.count: Invalid value: "": should be at least 2',
        'message: Invalid value: "other": field is immutable',
        'type: Invalid value: "Warning": field is immutable',
    ]
    assert (await api.patch(f"{EVENTS}/e", {"series": SEEN_AGAIN})).status == 200
    assert (await api.patch(f"{CORE_EVENTS}/e", {"message": "other"})).status == 200

    named = {"metadata": {"name": "Odd_"}, "involvedObject": {"namespace": "default"}}
    assert (await api.post(CORE_EVENTS, named)).status == 201
    assert errors(await api.post(EVENTS, {**EVENT, "metadata": {"name": "Odd_"}}))
