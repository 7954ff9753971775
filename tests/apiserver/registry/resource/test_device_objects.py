"""Taint rules, requests for pools' status and slices on a server: what writes reset, count and select by."""

from typing import Any

import pytest
from server_in_process import Caller, close_server, open_server

GROUP = "/apis/resource.k8s.io"
RULES, REQUESTS = f"{GROUP}/v1beta2/devicetaintrules", f"{GROUP}/v1alpha3/resourcepoolstatusrequests"
SERVED = {"resource.k8s.io/v1beta2": True, "resource.k8s.io/v1alpha3": True, "resource.k8s.io/v1beta1": True}
CONDITION = {
    "type": "T",
    "status": "True",
    "reason": "R",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "message": "",
}
OLD = "2020-01-01T00:00:00Z"


@pytest.fixture
async def api() -> Any:
    """1.36 with every version and gate of devices."""
    gates = {"DRADeviceTaintRules": True, "DRAResourcePoolStatus": True}
    server = await open_server(36, gates=gates, runtime_config=SERVED)
    yield Caller(server)
    await close_server(server)


def rule(effect: str = "NoSchedule", **taint: Any) -> Any:
    spec = {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": effect, **taint}}
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": spec,
    }


async def test_taint_rules_have_a_time_a_generation_and_a_status(api: Caller) -> None:
    """The time follows the effect unless the writer sets it; the status is only written through its path."""
    made = (await api.post(RULES, {**rule(timeAdded=OLD), "status": {"conditions": [CONDITION]}})).body
    assert (made["metadata"]["generation"], made["spec"]["taint"]["timeAdded"]) == (1, OLD)
    assert made["status"] == {}
    answer = await api.patch(f"{RULES}/r", {"spec": {"taint": {"value": "v"}}})
    assert (answer.body["metadata"]["generation"], answer.body["spec"]["taint"]["timeAdded"]) == (2, OLD)
    answer = await api.patch(f"{RULES}/r", {"spec": {"taint": {"effect": "NoExecute"}}})
    assert answer.body["spec"]["taint"]["timeAdded"] > OLD
    answer = await api.patch(f"{RULES}/r", {"spec": {"taint": {"effect": "None", "timeAdded": OLD}}})
    assert (answer.body["metadata"]["generation"], answer.body["spec"]["taint"]["timeAdded"]) == (4, OLD)
    change = {"metadata": {"labels": {"a": "b"}}, "spec": None, "status": {"conditions": [CONDITION]}}
    updated = (await api.patch(f"{RULES}/r/status", change)).body
    assert updated["status"]["conditions"] == [CONDITION]
    assert "labels" not in updated["metadata"]
    assert updated["metadata"]["generation"] == 4
    assert (await api.get(f"{GROUP}/v1alpha3/devicetaintrules/r")).body["spec"] == updated["spec"]


async def test_requests_are_answered_once(api: Caller) -> None:
    """A limit by default, a spec that stays, a status that is written once and with a resourceVersion."""
    body = {"metadata": {"name": "q"}, "spec": {"driver": "d"}}
    made = (await api.post(REQUESTS, body)).body
    assert made["spec"]["limit"] == 100
    assert "status" not in made
    answer = await api.patch(f"{REQUESTS}/q", {"spec": {"limit": 5}})
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == ["spec"]
    about = {"metadata": {"name": "q"}}
    answer = await api.put(f"{REQUESTS}/q/status", {**body, **about, "status": {"poolCount": 1}})
    assert "must be specified for an update" in answer.body["message"]
    answer = await api.put(f"{REQUESTS}/q/status", {**made, "status": {"poolCount": 1}})
    assert answer.status == 200, answer.body
    answer = await api.put(f"{REQUESTS}/q/status", {**answer.body, "status": {"poolCount": 2}})
    assert answer.body["message"].endswith("field is immutable")


def slice_(name: str, node: str, version: str = "v1") -> Any:
    pool = {"name": f"pool-{node}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": node, "pool": pool}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": spec,
    }


BY_POOL, BY_NODE = "spec.pool.name=pool-a", "spec.nodeName=a"


@pytest.mark.parametrize(
    ("minor", "version", "wanted"),
    [
        (32, "v1beta1", {BY_POOL: None, BY_NODE: ["s"]}),
        (36, "v1", {BY_POOL: None, BY_NODE: ["s"], "spec.driver=d": ["s", "t"]}),
        (37, "v1", {BY_POOL: ["s"], "metadata.namespace=a": None}),
    ],
)
async def test_slices_are_selected_by_fields(minor: int, version: str, wanted: Any) -> None:
    """By node and driver; by the name of the pool since 1.37."""
    gates = {"DynamicResourceAllocation": True} if minor < 34 else {}
    server = await open_server(minor, gates=gates, runtime_config={f"resource.k8s.io/{version}": True})
    call, target = Caller(server), f"{GROUP}/{version}/resourceslices"
    for name, node in (("s", "a"), ("t", "b")):
        assert (await call.post(target, slice_(name, node, version))).status == 201
    refused = f"field label not supported for resource.k8s.io/{version}, Kind=ResourceSlice: "
    for selector, found in wanted.items():
        answer = (await call.get(f"{target}?fieldSelector={selector}")).body
        if found is None:
            assert answer["message"] == refused + selector.partition("=")[0]
        else:
            assert [obj["metadata"]["name"] for obj in answer["items"]] == found
    await close_server(server)


async def test_a_class_counts_what_is_left_of_a_change() -> None:
    """Without its gate a name is dropped before the generation is counted; one that is there stays."""
    server = await open_server(36, gates={"DRAExtendedResource": False})
    try:
        call, target = Caller(server), f"{GROUP}/v1/deviceclasses"
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "c"},
            "spec": {},
        }
        await call.post(target, body)
        changed = (await call.patch(f"{target}/c", {"spec": {"extendedResourceName": "a.com/b"}})).body
        assert (changed["spec"], changed["metadata"]["generation"]) == ({}, 1)
    finally:
        await close_server(server)


async def test_objects_of_each_version_are_read_by_the_next(tmp_path: Any) -> None:
    """A claim written at 1.33 in v1beta1 is the same at 1.34 and 1.36, in every version there."""
    url = f"sqlite+aiosqlite:///{tmp_path}/log.db"
    on = {"DynamicResourceAllocation": True}
    claims = "namespaces/default/resourceclaims"
    request = {"name": "r", "deviceClassName": "c", "count": 2}
    tolerations = [{"operator": "Exists", "effect": "NoExecute"}]
    inline = {**request, "tolerations": tolerations, "selectors": [{"cel": {"expression": "true"}}]}
    versions = {
        33: ("v1beta1", "v1beta2"),
        34: ("v1", "v1beta2", "v1beta1"),
        36: ("v1", "v1beta2", "v1beta1"),
    }
    shown: dict[str, Any] = {}
    for minor, listed in versions.items():
        served = {f"resource.k8s.io/{version}": True for version in listed}
        server = await open_server(minor, url, gates=on if minor == 33 else {}, runtime_config=served)
        call = Caller(server)
        if minor == 33:
            body = {"metadata": {"name": "x"}, "spec": {"devices": {"requests": [inline]}}}
            assert (await call.post(f"{GROUP}/v1beta1/{claims}", body)).status == 201
        for version in listed:
            spec = (await call.get(f"{GROUP}/{version}/{claims}/x")).body["spec"]
            assert shown.setdefault(version, spec) == spec
        answer = await call.patch(
            f"{GROUP}/{listed[0]}/{claims}/x", {"metadata": {"labels": {"m": str(minor)}}}
        )
        assert answer.status == 200, answer.body
        await close_server(server)
    assert shown["v1"] == shown["v1beta2"]
    wanted = {**inline, "allocationMode": "ExactCount"}
    assert shown["v1beta1"]["devices"]["requests"] == [wanted]
    assert shown["v1"]["devices"]["requests"][0]["exactly"] == {
        k: v for k, v in wanted.items() if k != "name"
    }


async def test_updates_of_taint_rules_in_v1_name_a_revision() -> None:
    """Older versions of the API need none."""
    server = await open_server(37, runtime_config={"resource.k8s.io/v1beta2": True})
    call, newest = Caller(server), f"{GROUP}/v1/devicetaintrules"
    body = {**rule(), "apiVersion": "resource.k8s.io/v1"}
    assert (await call.post(newest, body)).status == 201
    answer = await call.put(f"{newest}/r", body)
    assert answer.status == 422
    assert "must be specified for an update" in answer.body["message"]
    assert (await call.put(f"{RULES}/r", rule())).status == 200
    await close_server(server)
