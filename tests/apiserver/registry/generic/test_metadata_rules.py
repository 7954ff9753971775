"""Every object's metadata is validated, in upstream's words."""

from typing import Any

import pytest
from server_in_process import MAPS, Caller, close_server, config_map, open_server
from webhook_server import CERTIFICATE

OWNER = {"uid": "u", "name": "p", "kind": "Pod", "apiVersion": "v1"}
SHOWN = '{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true}'
OTHER = SHOWN.replace('"u"', '"v"')
LABELS = {"app": "a"}
TWO = "Only one reference can have Controller set to true"


def causes(answer: Any) -> list[str]:
    assert answer.status == 422, answer.body
    return [f"{cause['field']}: {cause['message']}" for cause in answer.body["details"]["causes"]]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"generation": -1}, "metadata.generation: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]},
            'ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty',
        ),
        (
            {"ownerReferences": [{**OWNER, "apiVersion": "a/"}]},
            'ownerReferences.apiVersion: Invalid value: "a/": version must not be empty',
        ),
        (
            {"ownerReferences": [{**OWNER, "kind": "Event"}]},
            (
                'ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"p","uid":"u"}: '
                "/v1, Kind=Event is disallowed from being an owner"
            ),
        ),
        (
            {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "controller": True, "uid": "v"}]},
            (
                f"ownerReferences: Invalid value: [{SHOWN},{OTHER}]: "
                f'{TWO}. Found "true" in references for Pod/p and Pod/p'
            ),
        ),
        (
            {"finalizers": ["orphan", "foregroundDeletion"]},
            (
                'finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
                "finalizer orphan and foregroundDeletion cannot be both set"
            ),
        ),
    ],
)
async def test_new_metadata(api: Caller, metadata: dict[str, Any], expected: str) -> None:
    """Each error in the metadata of a new object is reported once."""
    answer = await api.post(MAPS, {"metadata": {"name": "a", **metadata}})
    assert causes(answer) == [expected if expected.startswith("metadata") else f"metadata.{expected}"]


async def test_rules_of_built_in_kinds_come_last(api: Caller) -> None:
    """A finalizer without a domain is reported by the rules of config maps, after all other errors."""
    text = "name is neither a standard finalizer name nor is it fully qualified"
    expected = f'metadata.finalizers[0]: Invalid value: "plain": {text}'
    assert causes(await api.post(MAPS, config_map("a", finalizers=["plain"]))) == [expected]

    await api.post(MAPS, config_map("a"))
    change = {"metadata": {"finalizers": ["plain"], "labels": {"a": "!"}}}
    found = causes(await api.patch(f"{MAPS}/a", change))
    assert [cause.partition(": ")[0] for cause in found] == [
        "metadata.labels",
        "metadata.labels",
        *("metadata.labels", "metadata.finalizers[0]") * 2,
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "fieldManager=a%01b",
            'fieldManager: Invalid value: "a\\x01b": invalid character U+0001 (at position 1)',
        ),
        (
            "fieldValidation=Odd",
            'fieldValidation: Unsupported value: "Odd": supported values: "", "Ignore", "Strict", "Warn"',
        ),
    ],
)
async def test_options(api: Caller, query: str, expected: str) -> None:
    """Options with invalid values are refused with upstream's messages."""
    assert causes(await api.post(f"{MAPS}?{query}", config_map("a"))) == [expected]


BUNDLES = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
PREFIX = "ClusterTrustBundle for signerName x.io/y must be named with prefix x.io:y:"


async def test_bundles_are_named_after_their_signer() -> None:
    """The name begins with the signer's, and the certificates are those of authorities, each once."""
    gates, config = {"ClusterTrustBundle": True}, {"certificates.k8s.io/v1beta1": True}
    server = await open_server(36, gates=gates, runtime_config=config)
    pem = CERTIFICATE.decode()
    try:
        api = Caller(server)
        for name, content, expected in (
            ("a", pem, f'metadata.name: Invalid value: "a": {PREFIX}'),
            ("x.io:y:a", "", "at least one trust anchor must be provided"),
            ("x.io:y:a", pem + pem, "duplicate trust anchor (indices [0 1])"),
            ("x.io:y:a", pem.replace("CERTIFICATE", "KEY"), "entry 0 has bad block type: KEY"),
        ):
            spec = {"signerName": "x.io/y", "trustBundle": content}
            found = causes(await api.post(BUNDLES, {"metadata": {"name": name}, "spec": spec}))
            assert len(found) == 1
            assert found[0].endswith(expected)

        spec = {"signerName": "x.io/y", "trustBundle": pem}
        made = await api.post(BUNDLES, {"metadata": {"name": "x.io:y:a"}, "spec": spec})
        assert made.status == 201, made.body
    finally:
        await close_server(server)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{MAPS}/a%25b", "Name parameter invalid: \"a%b\": may not contain '%'"),
        ("/apis/batch/v1/jobs?fieldSelector=x%3Dy", 'field label "x" not supported for Job'),
        (
            "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=x%3Dy",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x",
        ),
        ("/api/v1/pods?fieldSelector=x%3Dy", "field label not supported: x"),
        ("/api/v1/events?fieldSelector=regarding.kind%3Dy", "field label not supported: regarding.kind"),
    ],
)
async def test_what_cannot_be_asked_for(api: Caller, path: str, expected: str) -> None:
    """Names and labels that there cannot be are refused in each kind's words."""
    answer = await api.get(path)
    assert (answer.status, answer.body["message"]) == (400, expected)


async def test_a_scale_of_another_object(api: Caller) -> None:
    """The uid of a Scale that is put is asked of the store; one that is patched in, of the object itself."""
    path = "/apis/apps/v1/namespaces/default/replicasets"
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template},
    }
    made = await api.post(path, body)
    assert made.status == 201, made.body
    uid = made.body["metadata"]["uid"]
    failed = f"Precondition failed: UID in precondition: other, UID in object meta: {uid}"
    scale: dict[str, Any] = {
        "metadata": {"name": "a", "namespace": "default", "uid": "other"},
        "spec": {"replicas": 2},
    }
    put = await api.put(f"{path}/a/scale", {"kind": "Scale", "apiVersion": "autoscaling/v1", **scale})
    where = "StorageError: invalid object, Code: 4, Key: /registry/replicasets/default/a, ResourceVersion: 0"
    begin = 'Operation cannot be fulfilled on replicasets.apps "a"'
    assert (put.status, put.body["message"]) == (409, f"{begin}: {where}, AdditionalErrorMsg: {failed}")
    patched = await api.patch(f"{path}/a/scale", {"metadata": {"uid": "other"}}, "merge")
    begin = 'Operation cannot be fulfilled on replicasets/scale.apps "a"'
    assert (patched.status, patched.body["message"]) == (409, f"{begin}: {failed}")
    scale["metadata"]["uid"] = uid
    put = await api.put(f"{path}/a/scale", {"kind": "Scale", "apiVersion": "autoscaling/v1", **scale})
    assert (put.status, put.body["spec"]) == (200, {"replicas": 2}), put.body
