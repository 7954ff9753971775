"""Partitionable devices at the API server (KEP-4815): the text's manifests, and the rules of its fields."""

import json
from pathlib import Path
from typing import Any

import pytest
from server_in_process import Caller, close_server, open_server

MANIFESTS = Path(__file__).parents[4] / "conformance/manifests/kep-4815"
API = "/apis/resource.k8s.io/v1"
SLICES, CLAIMS = f"{API}/resourceslices", f"{API}/namespaces/default/resourceclaims"
VERSIONS = ("v1beta1", "v1beta2", "v1")
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def documents(name: str) -> list[bytes]:
    return [piece.encode() for piece in (MANIFESTS / f"{name}.yaml").read_text().split("---\n")]


@pytest.mark.parametrize(
    ("target", "body", "status", "text"),
    [
        (CLAIMS, documents("mig-claim")[0], 400, 'strict decoding error: unknown field "spec.spec"'),
        (CLAIMS, documents("tpu-claim")[0], 400, "yaml: "),
        (SLICES, documents("counters")[0], 422, "spec: Required value: exactly one of `nodeName`"),
        (SLICES, documents("counters")[1], 201, ""),
        (SLICES, documents("tpu-slices")[0], 422, "spec: Required value: exactly one of `nodeName`"),
        (SLICES, documents("tpu-slices")[1], 400, "cannot unmarshal string into Go struct field"),
        (CLAIMS, documents("tpu-consumer-claim")[0], 201, ""),
        (DEPLOYMENTS, documents("tpu-consumer-deployment")[0], 400, "unknown field"),
    ],
    ids=[
        "mig-claim",
        "tpu-claim",
        "counters",
        "devices",
        "tpu-counters",
        "tpus",
        "tpu-consumer",
        "deployment",
    ],
)
async def test_manifests_under_strict_validation(
    api: Caller, target: str, body: bytes, status: int, text: str
) -> None:
    """Of the eight objects that the KEP prints in six manifests, strict field validation takes two."""
    answer = await api("POST", f"{target}?fieldValidation=Strict", body, content_type="application/yaml")
    assert (answer.status, text in answer.body.get("message", "")) == (status, True), answer.body


ONE = {"value": "1"}
COUNTED = {"name": "d", "consumesCounters": [{"counterSet": "s", "counters": {"c": ONE}}]}
PER_DEVICE = {"nodeName": None, "perDeviceNodeSelection": True}
HOST = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]}]}
TERM = {"nodeSelectorTerms": [HOST]}
DNS_LABEL = "a lowercase RFC 1123 label"


def slice_(**fields: Any) -> Any:
    pool = {"name": "p", "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool, **fields}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {name: value for name, value in spec.items() if value is not None},
    }


def sets(*names: str, counters: int = 1) -> Any:
    return [{"name": name, "counters": {f"c{number}": ONE for number in range(counters)}} for name in names]


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"sharedCounters": sets("s"), "devices": [COUNTED]}, "spec", "only one of `sharedCounters` or"),
        ({"sharedCounters": sets("s", "s")}, "spec.sharedCounters[1]", "Duplicate value"),
        ({"sharedCounters": sets("S")}, "spec.sharedCounters[0].name", DNS_LABEL),
        ({"sharedCounters": sets(*(f"s{n}" for n in range(9)))}, "spec.sharedCounters", "at most 8 items"),
        ({"sharedCounters": sets("s", counters=33)}, "spec.sharedCounters[0].counters", "at most 32"),
        (
            {"sharedCounters": [{"name": "s", "counters": {"memorySlice0": ONE}}]},
            "spec.sharedCounters[0].counters",
            DNS_LABEL,
        ),
        ({"sharedCounters": [{"name": "s"}]}, "spec.sharedCounters[0].counters", "Required value"),
        ({"devices": [{"name": "gpu-0-mig-1g.5gb-0"}]}, "spec.devices[0].name", "must not contain dots"),
        ({"devices": [{"name": f"d{n}"} for n in range(129)]}, "spec.devices", "at most 128 items"),
        (
            {"devices": [COUNTED, *({"name": f"d{n}"} for n in range(64))]},
            "spec.devices",
            "at most 64 items",
        ),
        (
            {"devices": [{"name": "d", "consumesCounters": COUNTED["consumesCounters"] * 2}]},
            "spec.devices[0].consumesCounters[1]",
            "Duplicate value",
        ),
        (
            {"devices": [{"name": "d", "capacity": {f"c{n}": ONE for n in range(33)}}]},
            "spec.devices[0]",
            "the total number of attributes and capacities must not exceed 32",
        ),
        (
            {"devices": [{"name": "d", "taints": [{"key": "k", "effect": "NoSchedule"}] * 17}]},
            "spec.devices[0].taints",
            "at most 16 items",
        ),
        (
            {
                "devices": [
                    {
                        "name": "d",
                        "capacity": {f"c{n}": ONE for n in range(16)},
                        "attributes": {f"a{n}": {"int": n} for n in range(17)},
                    }
                ]
            },
            "spec.devices[0]",
            "the total number of attributes and capacities must not exceed 32",
        ),
        ({"perDeviceNodeSelection": True}, "spec", "multiple fields are set"),
        ({**PER_DEVICE, "allNodes": True}, "spec", "multiple fields are set"),
        ({**PER_DEVICE, "nodeSelector": TERM}, "spec", "multiple fields are set"),
        ({"nodeName": None, "perDeviceNodeSelection": False}, "spec.perDeviceNodeSelection", "set to true"),
        ({"devices": [{"name": "d", "allNodes": True}]}, "spec.devices[0]", "can only be set if"),
        ({**PER_DEVICE, "devices": [{"name": "d"}]}, "spec.devices[0]", "is required when"),
        (
            {**PER_DEVICE, "devices": [{"name": "d", "nodeName": "n", "allNodes": True}]},
            "spec.devices[0]",
            "{`nodeName`, `allNodes`}",
        ),
        (
            {**PER_DEVICE, "devices": [{"name": "d", "nodeSelector": TERM, "allNodes": True}]},
            "spec.devices[0]",
            "{`nodeSelector`, `allNodes`}",
        ),
        (
            {**PER_DEVICE, "devices": [{"name": "d", "allNodes": False}]},
            "spec.devices[0].allNodes",
            "either unset or set to true",
        ),
        (
            {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": [HOST, HOST]}},
            "spec.nodeSelector.nodeSelectorTerms",
            "must have exactly one node selector term",
        ),
    ],
)  # fmt: skip
async def test_fields_that_are_refused(api: Caller, spec: Any, field: str, text: str) -> None:
    """Each rule of the KEP for the new fields has its answer, at the field that breaks it."""
    answer = await api.post(SLICES, slice_(**spec))
    assert answer.status == 422
    causes = [(cause["field"], cause["message"]) for cause in answer.body["details"]["causes"]]
    assert any(field in where and text in said for where, said in causes), causes


@pytest.mark.parametrize(
    "spec",
    [
        {**PER_DEVICE, "devices": [{"name": "d", "nodeSelector": {"nodeSelectorTerms": [HOST, HOST]}}]},
        {"devices": [{"name": "d", "consumesCounters": [{"counterSet": "nowhere", "counters": {"c": ONE}}]}]},
        {"devices": [{"name": f"d{n}"} for n in range(128)]},
        {**PER_DEVICE, "devices": [{"name": "d", "allNodes": True}, {"name": "e", "nodeName": "n"}]},
        {"sharedCounters": []},
    ],
    ids=["two-terms", "unknown-set", "many", "per-device", "empty"],
)
async def test_what_only_the_scheduler_finds(api: Caller, spec: Any) -> None:
    """A device's selector with two terms and a reference to nothing are stored: no rule of the API is against
    them."""
    answer = await api.post(SLICES, slice_(**spec))
    assert answer.status == 201, answer.body


async def test_a_counter_without_value_is_zero(api: Caller) -> None:
    """The value of a counter is not required: without one there is nothing of it."""
    answer = await api.post(SLICES, slice_(sharedCounters=[{"name": "s", "counters": {"c": {}}}]))
    assert (answer.status, answer.body["spec"]["sharedCounters"][0]["counters"]) == (
        201,
        {"c": {"value": "0"}},
    )


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1"])
async def test_every_version_has_the_fields(version: str) -> None:
    """A slice that is written in one version of the API is read in each, and written back without loss."""
    server = await open_server(36, runtime_config={f"resource.k8s.io/{each}": True for each in VERSIONS})
    try:
        call = Caller(server)
        selector = {"nodeSelectorTerms": [HOST]}
        devices = [{**COUNTED, "nodeSelector": selector}, {**COUNTED, "name": "e", "allNodes": True}]
        await call.post(SLICES, slice_(**PER_DEVICE, devices=devices))
        await call.post(SLICES, {**slice_(sharedCounters=sets("s")), "metadata": {"name": "t"}})
        for name in ("s", "t"):
            target = f"/apis/resource.k8s.io/{version}/resourceslices/{name}"
            before = (await call.get(f"{SLICES}/{name}")).body["spec"]
            assert (await call.put(target, (await call.get(target)).body)).status == 200
            assert (await call.get(f"{SLICES}/{name}")).body["spec"] == before
    finally:
        await close_server(server)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_lists_are_atomic(version: str) -> None:
    """A list of counter sets, or of consumed counters, replaces the one that another manager has applied."""
    server = await open_server(36, runtime_config={f"resource.k8s.io/{each}": True for each in VERSIONS})
    basic = version == "v1beta1"

    async def apply(manager: str, name: str, spec: Any) -> Any:
        body = {**slice_(**spec), "apiVersion": f"resource.k8s.io/{version}", "metadata": {"name": name}}
        target = f"/apis/resource.k8s.io/{version}/resourceslices/{name}?fieldManager={manager}&force=true"
        answer = await Caller(server)(
            "PATCH", target, json.dumps(body).encode(), content_type="application/apply-patch+yaml"
        )
        assert answer.status in {200, 201}, answer.body
        return answer.body["spec"]

    def consuming(counter_set: str) -> Any:
        content = {"consumesCounters": [{"counterSet": counter_set, "counters": {"c": ONE}}]}
        return {"devices": [{"name": "d", "basic": content} if basic else {"name": "d", **content}]}

    try:
        await apply("first", "s", {"sharedCounters": sets("s")})
        assert (await apply("second", "s", {"sharedCounters": sets("t")}))["sharedCounters"] == sets("t")
        await apply("first", "d", consuming("s"))
        assert (await apply("second", "d", consuming("t")))["devices"] == consuming("t")["devices"]
    finally:
        await close_server(server)


@pytest.mark.parametrize("minor", [33, 34, 35, 36, 37])
async def test_partitions_bring_no_kinds(minor: int) -> None:
    """The API serves the same resources with the gate and without."""
    version = "v1beta2" if minor == 33 else "v1"
    served = []
    for gate in (True, False):
        server = await open_server(
            minor,
            gates={"DynamicResourceAllocation": True, "DRAPartitionableDevices": gate},
            runtime_config={"resource.k8s.io/v1beta2": True},
        )
        served.append((await Caller(server).get(f"/apis/resource.k8s.io/{version}")).body)
        await close_server(server)

    assert served[0] == served[1]
    assert len(served[0]["resources"]) > 4


@pytest.mark.parametrize("minor", [34, 36])
async def test_without_the_gate_new_slices_lose_the_fields(minor: int) -> None:
    """The fields are dropped from new objects; one that has them keeps them, all of the group."""
    server = await open_server(minor, gates={"DRAPartitionableDevices": False})
    try:
        call = Caller(server)
        stored = await call.post(SLICES, slice_(devices=[COUNTED]))
        assert (stored.status, stored.body["spec"]["devices"]) == (201, [{"name": "d"}])
        refused = await call.post(SLICES, slice_(**PER_DEVICE, devices=[{"name": "d", "nodeName": "n"}]))
        assert refused.status == 422
        assert "is required" in refused.body["message"]
    finally:
        await close_server(server)
