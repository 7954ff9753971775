# ruff: noqa: E501 - upstream's texts stand whole
"""The objects of resource.k8s.io: what is refused, with which words, and what a write may change."""

from typing import Any

import pytest
from server_in_process import Caller, close_server, open_server

NAMESPACE = "/apis/resource.k8s.io/v1/namespaces/default"
CLAIMS, TEMPLATES = f"{NAMESPACE}/resourceclaims", f"{NAMESPACE}/resourceclaimtemplates"
SLICES, CLASSES = "/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1/deviceclasses"
ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
NODES = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"


def claim(*requests: Any, **devices: Any) -> Any:
    spec = {"devices": {"requests": list(requests), **devices}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": spec,
    }


def exact(name: str = "r", **fields: Any) -> Any:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def slice_(*devices: Any, **fields: Any) -> Any:
    spec = {
        "driver": "d.example.com",
        "nodeName": "n",
        "pool": {"name": "p", "resourceSliceCount": 1},
        "devices": list(devices),
        **fields,
    }
    spec = {name: value for name, value in spec.items() if value is not None}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": spec,
    }


def texts(body: Any) -> list[str]:
    return [f"{cause['field']}: {cause['message']}" for cause in body["details"]["causes"]]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (claim({"name": "r"}), [f"spec.devices.requests[0]: Required value: {ONE_OF}"]),
        (
            claim({**exact(), "firstAvailable": [{"name": "s", "deviceClassName": "x"}]}),
            [f"spec.devices.requests[0]: Invalid value: null: {ONE_OF}, but multiple fields are set"],
        ),
        (
            claim(exact(allocationMode="All", count=2)),
            [
                "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'"
            ],
        ),
        (
            claim(exact(count=-1)),
            ["spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero"],
        ),
        (
            claim(exact(allocationMode="Some")),
            [
                'spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"'
            ],
        ),
        (
            claim(exact(deviceClassName="")),
            ["spec.devices.requests[0].exactly.deviceClassName: Required value"],
        ),
        (claim(exact(selectors=[{}])), ["spec.devices.requests[0].exactly.selectors[0].cel: Required value"]),
        (claim(exact(), exact()), ['spec.devices.requests[1]: Duplicate value: "r"']),
        (
            claim(*[exact(f"r{n}") for n in range(33)]),
            ["spec.devices.requests: Too many: 33: must have at most 32 items"],
        ),
        (
            claim(exact(), constraints=[{"requests": ["x"], "matchAttribute": "a"}]),
            [
                "spec.devices.constraints[0].requests[0]: Invalid value: \"x\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
                'spec.devices.constraints[0].matchAttribute: Invalid value: "a": a fully qualified name must be a domain and a name separated by a slash',
            ],
        ),
        (claim(exact(), config=[{}]), ["spec.devices.config[0].opaque: Required value"]),
        (
            claim(exact(adminAccess=True)),
            [
                "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
            ],
        ),
    ],
)
async def test_claims_that_are_refused(api: Caller, given: Any, wanted: list[str]) -> None:
    """422 with upstream's causes."""
    answer = await api.post(CLAIMS, given)
    assert answer.status == 422, answer.body
    assert texts(answer.body) == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (slice_(nodeName=None), [f"spec: Required value: {NODES}"]),
        (
            slice_(allNodes=True),
            [f'spec: Invalid value: "{{`nodeName`, `allNodes`}}": {NODES}, but multiple fields are set'],
        ),
        (
            slice_(pool={"name": "p", "resourceSliceCount": 0, "generation": -1}),
            [
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
            ],
        ),
        (
            slice_({"name": "a", "attributes": {"x": {"int": 1, "bool": True}}}),
            [
                'spec.devices[0].attributes[x]: Invalid value: {"IntValue":1,"BoolValue":true,"StringValue":null,"VersionValue":null,"IntValues":null,"BoolValues":null,"StringValues":null,"VersionValues":null}: exactly one value must be specified'
            ],
        ),
        (
            slice_({"name": "a", "attributes": {"v": {"version": "1.0"}}}),
            [
                'spec.devices[0].attributes[v].version: Invalid value: "1.0": must be a string compatible with semver.org spec 2.0.0'
            ],
        ),
        (slice_({"name": "a"}, {"name": "a"}), ['spec.devices[1]: Duplicate value: "a"']),
        (
            slice_(*[{"name": f"d{n}"} for n in range(129)]),
            ["spec.devices: Too many: 129: must have at most 128 items"],
        ),
        (
            slice_({"name": "a", "capacity": {"m": {"value": "1Gi", "requestPolicy": {"default": "1Gi"}}}}),
            ["spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true"],
        ),
        (
            slice_({"name": "a"}, sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}]),
            ['spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed'],
        ),
    ],
)
async def test_slices_that_are_refused(api: Caller, given: Any, wanted: list[str]) -> None:
    """422 with upstream's causes."""
    answer = await api.post(SLICES, given)
    assert answer.status == 422, answer.body
    assert texts(answer.body) == wanted


async def test_a_slice_of_the_largest_size(api: Caller) -> None:
    """All that the limits allow is stored, and is less than etcd takes (test/e2e/dra, "creates slices")."""
    domain = f"{'x' * 59}.com"
    attributes = {f"{domain}/a{n:031}": {"string": "v" * 64} for n in range(32)}
    stored = await api.post(
        SLICES, slice_(*[{"name": f"{n:063}", "attributes": attributes} for n in range(128)])
    )
    assert stored.status == 201
    assert 600 * 1024 <= len(stored.raw) < 1024 * 1024


SELECTOR = "spec.devices.requests[0].exactly.selectors[0].cel.expression"


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("device.driver == 'a'", None),
        (
            "device.nope",
            f"{SELECTOR}: Invalid value: \"device.nope\": compilation failed: ERROR: <input>:1:7: undefined field 'nope'\n | device.nope\n | ......^",
        ),
        ("1", f'{SELECTOR}: Invalid value: "1": must evaluate to bool or the unknown type, not int'),
        (
            "uint(-1) == 1u",
            f"{SELECTOR}: Internal error: program instantiation failed: unsigned integer overflow",
        ),
        ("type(device.driver) == string", f"{SELECTOR}: Forbidden: too complex, exceeds cost limit"),
    ],
)
async def test_selectors_are_compiled_and_priced(api: Caller, expression: str, wanted: str | None) -> None:
    """A selector that does not compile, or may cost too much, is refused when it is written."""
    answer = await api.post(CLAIMS, claim(exact(selectors=[{"cel": {"expression": expression}}])))

    if wanted is None:
        assert answer.status == 201
    else:
        assert answer.status == 422
        assert texts(answer.body) == [wanted]


async def test_a_claims_spec_never_changes(api: Caller) -> None:
    """Metadata may, the spec may not."""
    made = (await api.post(CLAIMS, claim(exact()))).body
    assert made["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert made["status"] == {}
    assert (await api.patch(f"{CLAIMS}/c", {"metadata": {"labels": {"a": "b"}}})).status == 200
    answer = await api.patch(f"{CLAIMS}/c", {"spec": {"devices": {"requests": [exact(count=2)]}}})
    assert answer.status == 422
    assert answer.body["details"]["causes"][0]["field"] == "spec"
    assert answer.body["message"].endswith(": field is immutable")


async def test_a_claims_status_has_rules_of_its_own(api: Caller) -> None:
    """Reservations need an allocation; an allocation never changes, it is only taken away."""
    await api.post(CLAIMS, claim(exact()))
    user = {"resource": "pods", "name": "p", "uid": "u"}
    answer = await api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": [user]}})
    assert texts(answer.body) == [
        "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    ]
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "a"}
    allocation = {"devices": {"results": [result]}}
    listed = [{"driver": "d.example.com", "pool": "p", "device": "a"}]
    status = {"allocation": allocation, "reservedFor": [user], "devices": listed}
    answer = await api.patch(f"{CLAIMS}/c/status", {"status": status})
    assert answer.status == 200, answer.body
    other = {"devices": {"results": [{**result, "device": "b"}]}}
    answer = await api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": other, "devices": None}})
    assert answer.body["details"]["causes"][0]["field"] == "status.allocation"
    answer = await api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": None, "reservedFor": None}})
    assert answer.status == 200, answer.body
    assert answer.body["status"] == {}


async def test_the_extended_resource_name_of_a_class(api: Caller) -> None:
    """An extended resource name needs a domain that is not Kubernetes' own; a class counts its generations."""
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}}
    answer = await api.post(CLASSES, {**body, "spec": {"extendedResourceName": "gpu"}})
    assert texts(answer.body) == [
        'spec.extendedResourceName: Invalid value: "gpu": must be a valid extended resource name'
    ]
    made = (await api.post(CLASSES, {**body, "spec": {"extendedResourceName": "example.com/gpu"}})).body
    assert made["metadata"]["generation"] == 1
    changed = (
        await api.patch(f"{CLASSES}/gpu", {"spec": {"extendedResourceName": "example.com/other"}})
    ).body
    assert changed["metadata"]["generation"] == 2


async def test_without_the_gate_a_class_loses_its_extended_resource_name() -> None:
    """Dropped on create; 1.35 has the gate off."""
    server = await open_server(35)
    try:
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}}
        answer = await Caller(server).post(
            CLASSES, {**body, "spec": {"extendedResourceName": "example.com/gpu"}}
        )
        assert answer.body["spec"] == {}
    finally:
        await close_server(server)


async def test_the_pool_of_a_slice_never_changes(api: Caller) -> None:
    """Pool, driver and node of a slice never change; devices may, and the generation grows."""
    made = (await api.post(SLICES, slice_({"name": "a"}))).body
    assert made["metadata"]["generation"] == 1
    answer = await api.patch(f"{SLICES}/s", {"spec": {"pool": {"name": "q"}, "nodeName": "m"}})
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == [
        "spec.pool.name",
        "spec.nodeName",
    ]
    changed = await api.patch(f"{SLICES}/s", {"spec": {"devices": [{"name": "b"}]}})
    assert changed.body["metadata"]["generation"] == 2


async def test_an_upper_case_driver_is_warned_of(api: Caller) -> None:
    """A driver's name in upper case is warned of, and no error."""
    answer = await api.post(SLICES, slice_(driver="D.example.com"))
    assert answer.status == 201, answer.body
    assert any("driver names should be lowercase" in warning for warning in answer.warnings)


@pytest.mark.parametrize(("minor", "version"), [(32, "v1beta1"), (33, "v1beta1")])
async def test_older_servers_know_the_inline_shape(minor: int, version: str) -> None:
    """The path of an error is that of the minor's internal type."""
    server = await open_server(
        minor, runtime_config={f"resource.k8s.io/{version}": True}, gates={"DynamicResourceAllocation": True}
    )
    path = f"/apis/resource.k8s.io/{version}/namespaces/default/resourceclaims"
    body = claim({"name": "r", "deviceClassName": "gpu", "count": -1})
    body["apiVersion"] = f"resource.k8s.io/{version}"
    try:
        answer = await Caller(server).post(path, body)
        where = "spec.devices.requests[0].count" if minor < 33 else "spec.devices.requests[0].exactly.count"
        assert texts(answer.body) == [f"{where}: Invalid value: -1: must be greater than zero"]
    finally:
        await close_server(server)
