"""Errors show empty lists and maps as they were given, though objects are kept without them."""

import pytest

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"
REPLICASETS = "/apis/apps/v1/namespaces/default/replicasets"
CONTAINERS = [{"name": "c", "image": "i"}]


@pytest.mark.parametrize(("metadata", "shown"), [({"labels": {}}, "{}"), ({}, "null")])
async def test_labels_of_a_template(api, metadata, shown):
    """An empty map is not nil."""
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": metadata, "spec": {}}}
    spec["template"]["spec"]["containers"] = CONTAINERS

    answer = await api.post(REPLICASETS, {"metadata": {"name": "a"}, "spec": spec})

    causes = {cause["field"]: cause["message"] for cause in answer.body["details"]["causes"]}
    text = f"Invalid value: {shown}: `selector` does not match template `labels`"
    assert causes["spec.template.metadata.labels"] == text


@pytest.mark.parametrize("kind", ["put", "merge", "strategic", "apply"])
async def test_lists_of_a_claim(api, kind):
    """They are those of the body, or of what the patch made."""
    assert (await api.post(CLAIMS, {"metadata": {"name": "a"}, "spec": {}})).status == 201
    devices = {"requests": [], "constraints": [], "config": [{"requests": []}]}
    claim = {"metadata": {"name": "a"}, "spec": {"devices": devices}}
    if kind == "put":
        answer = await api.put(f"{CLAIMS}/a", claim)
    else:
        head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        answer = await api.patch(f"{CLAIMS}/a?fieldManager=m", {**head, **claim}, kind)

    shown = '{"Devices":{"Requests":[],"Constraints":[],"Config":[{"Requests":[],"Opaque":null}]}}'
    assert f"spec: Invalid value: {shown}: field is immutable" in answer.body["message"]


async def test_an_empty_list_of_requests_is_none(api):
    """The claim is as it was."""
    made = await api.post(CLAIMS, {"metadata": {"name": "a"}, "spec": {}})

    answer = await api.put(f"{CLAIMS}/a", {"metadata": {"name": "a"}, "spec": {"devices": {"requests": []}}})

    assert answer.status == 200
    assert answer.body["metadata"]["resourceVersion"] == made.body["metadata"]["resourceVersion"]


async def test_sources_of_attachments_are_shown_as_the_internal_type(api):
    """All fields of a volume's specification have Go's names."""
    source = {"inlineVolumeSpec": {"nfs": {"server": "s", "path": "/p"}, "mountOptions": []}}
    spec = {"attacher": "x.example.com", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
    assert (await api.post(ATTACHMENTS, {"metadata": {"name": "a"}, "spec": spec})).status == 201

    answer = await api.patch(f"{ATTACHMENTS}/a", {"spec": {"source": source}}, "merge")

    message = " ".join(cause["message"] for cause in answer.body["details"]["causes"])
    assert (
        '"PersistentVolumeName":"pv","InlineVolumeSpec":{"Capacity":null,"GCEPersistentDisk":null' in message
    )
    assert '"NFS":{"Server":"s","Path":"/p","ReadOnly":false}' in message
    assert '"MountOptions":[]' in message


async def test_generations_of_objects_that_lose_a_disabled_field(api):
    """The field does not count, but in a slice, whose generation grows before it goes."""
    template = {"metadata": {"name": "a"}, "template": {"spec": {"containers": CONTAINERS}}}
    assert (await api.post(TEMPLATES, template)).status == 201
    template["template"]["spec"] |= {"containers": [{**CONTAINERS[0], "tty": True}], "schedulingGroup": {}}
    generations = [
        (await api.put(f"{TEMPLATES}/a", template)).body["metadata"]["generation"] for _ in range(2)
    ]
    assert generations == [2, 2]

    device = {"name": "d", "attributes": {"a": {"bool": True}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": [device]}
    assert (await api.post(SLICES, {"metadata": {"name": "a"}, "spec": spec})).status == 201
    device["attributes"]["a"]["ints"] = [1]
    answers = [await api.put(f"{SLICES}/a", {"metadata": {"name": "a"}, "spec": spec}) for _ in range(2)]
    assert [answer.body["metadata"]["generation"] for answer in answers] == [2, 3]


async def test_texts_of_a_named_type_are_written_as_json(api):
    """JSON escapes some signs; a plain text is quoted as Go does, and so was any before 1.34."""
    toleration = {"key": "a", "operator": "Exists", "effect": "x > 1"}
    request = {"name": "r", "exactly": {"deviceClassName": "c", "tolerations": [toleration]}}

    answer = await api.post(CLAIMS, {"metadata": {"name": "a"}, "spec": {"devices": {"requests": [request]}}})

    assert 'Unsupported value: "x \\u003e 1": supported values' in answer.body["message"]


async def test_names_and_owners_that_the_server_completes(api):
    """Addresses are named by the prefix alone, and who sets a node's range owns the list of them."""
    address = {
        "metadata": {"generateName": "10.96.0.9-"},
        "spec": {"parentRef": {"resource": "r", "name": "n"}},
    }
    refused = await api.post("/apis/networking.k8s.io/v1/ipaddresses", address)
    node = await api.post("/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"podCIDR": "10.9.0.0/24"}})

    assert refused.body["details"]["name"] == "10.96.0.9-"
    owned = node.body["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert owned == {"f:podCIDR": {}, "f:podCIDRs": {".": {}, 'v:"10.9.0.0/24"': {}}}
