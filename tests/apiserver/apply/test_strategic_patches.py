"""A strategic merge patch that does not fit its kind gets the error of upstream's converter."""

import json

import pytest
from server_in_process import MAPS, config_map

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
DEPLOYMENT = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": POD}}
ONE = {"name": "c"}


@pytest.fixture
async def web(api):
    """A deployment's address."""
    assert (await api.post(DEPLOYMENTS, DEPLOYMENT)).status == 201
    return f"{DEPLOYMENTS}/web"


POD_MAP = "map[spec:map[template:map[spec:map["


def labels(value):
    return {"metadata": {"labels": value}}


def in_pod(**spec):
    return {"spec": {"template": {"spec": spec}}}


@pytest.mark.parametrize(
    ("patch", "shown", "why"),
    [
        ({"spec": {"replicas": "two"}}, "map[spec:map[replicas:two]]", "unrecognized type: int32"),
        ({"spec": {"replicas": 1.5}}, "map[spec:map[replicas:1.5]]", "cannot convert float64 to int32"),
        ({"spec": {"paused": "no"}}, "map[spec:map[paused:no]]", "unrecognized type: bool"),
        (labels({"a": 1}), "map[metadata:map[labels:map[a:1]]]", "cannot convert int64 to string"),
        (labels({"a": True}), "map[metadata:map[labels:map[a:true]]]", "unrecognized type: string"),
        (labels("a"), "map[metadata:map[labels:a]]", "cannot restore map from string"),
        ({"spec": {"selector": 1}}, "map[spec:map[selector:1]]", "cannot restore struct from: int64"),
        (in_pod(containers={}), f"{POD_MAP}containers:map[]]]]]", "cannot restore slice from map"),
        (
            in_pod(containers=[{**ONE, "ports": [{"containerPort": "x"}]}]),
            f"{POD_MAP}containers:[map[name:c ports:[map[containerPort:x]]]]]]]]",
            "unrecognized type: int32",
        ),
        (
            in_pod(**{"containers": [{**ONE, "imgae": "i"}], "$setElementOrder/containers": [ONE]}),
            f"{POD_MAP}]]]]",
            'strict decoding error: unknown field "spec.template.spec.containers[0].imgae"',
        ),
        (  # nulls have been taken, too
            in_pod(affinity={"a": None, "podAffinity": {"b": None}}, dnsPolicy=1),
            f"{POD_MAP}affinity:map[podAffinity:map[]] dnsPolicy:1]]]]",
            "cannot convert int64 to v1.DNSPolicy",
        ),
        (  # the directive has been taken
            {"$patch": "replace", "spec": True},
            "map[spec:true]",
            "cannot restore struct from: bool",
        ),
        (in_pod(dnsPolicy=1), f"{POD_MAP}dnsPolicy:1]]]]", "cannot convert int64 to v1.DNSPolicy"),
        (
            {"spec": {"b": None, "a": 2}, "metadata": {"x": {}}},
            "map[metadata:map[x:map[]] spec:map[a:2 b:<nil>]]",
            'strict decoding error: unknown field "metadata.x", unknown field "spec.a"',
        ),
    ],
)
async def test_what_does_not_fit_is_reported_with_the_patch(api, web, patch, shown, why):
    """The value is the patch as Go prints the map, without what has been merged in order already."""
    answer = await api.patch(f"{web}?fieldValidation=Strict", patch, "strategic")

    assert answer.status == 422
    assert answer.body["message"] == f' "" is invalid: patch: Invalid value: {json.dumps(shown)}: {why}'


async def test_a_quantity_is_reported_by_its_own_reader(api, web):
    """A type that reads JSON itself keeps its words."""
    patch = in_pod(containers=[{**ONE, "resources": {"limits": {"cpu": "1q"}}}])

    answer = await api.patch(web, patch, "strategic")

    assert answer.status == 422
    assert answer.body["message"].endswith(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


async def test_whole_floats_are_whole_numbers(api, web):
    """The converter is kinder than the decoder: 2.0 is 2."""
    answer = await api.patch(web, b'{"spec": {"replicas": 2.0}}', "strategic")

    assert answer.status == 200
    assert answer.body["spec"]["replicas"] == 2


async def test_a_key_given_twice_is_reported_first(api):
    """Strict errors of the patch itself come before the unknown fields of what it made."""
    await api.post(MAPS, config_map("a"))
    body = b'{"data": {"a": "1", "a": "2"}, "dato": {}}'

    warned = await api.patch(f"{MAPS}/a?fieldValidation=Warn", body, "strategic")
    refused = await api.patch(f"{MAPS}/a?fieldValidation=Strict", body, "strategic")

    assert warned.status == 200
    assert warned.warnings == ['299 - "duplicate field \\"data.a\\""', '299 - "unknown field \\"dato\\""']
    assert refused.status == 422
    assert refused.body["message"].endswith(
        ': strict decoding error: duplicate field "data.a", unknown field "dato"'
    )


async def test_a_patch_cannot_make_another_kind(api):
    """The apiVersion and kind in a strategic merge patch are ignored."""
    await api.post(MAPS, config_map("a"))

    answer = await api.patch(f"{MAPS}/a", {"kind": "Secret", "apiVersion": "v2"}, "strategic")

    assert (answer.status, answer.body["kind"], answer.body["apiVersion"]) == (200, "ConfigMap", "v1")


@pytest.mark.parametrize(("body", "found"), [(b"[1]", "array"), (b'"x"', "string"), (b"1", "number")])
async def test_a_patch_is_an_object(api, body, found):
    """A strategic merge patch that is not an object is refused with the message of Go's decoder."""
    await api.post(MAPS, config_map("a"))

    answer = await api.patch(f"{MAPS}/a", body, "strategic")

    why = f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    assert (answer.status, answer.body["message"]) == (400, why)


async def test_unknown_fields_below_a_map_are_named_without_its_keys(api):
    """The converter's path has fields and indices alone."""
    device = {"name": "gpu-0", "attributes": {"driver": {"string": "a", "Name": "b"}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool}
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    assert (await api.post(slices, {"metadata": {"name": "a"}, "spec": spec})).status == 201

    answer = await api.patch(f"{slices}/a", {"spec": {"devices": [device]}}, "strategic")

    assert answer.warnings == ['299 - "unknown field \\"spec.devices[0].attributes.Name\\""']
