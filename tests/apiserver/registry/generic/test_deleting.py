"""DELETE: at once, by finalizers, gracefully, under preconditions; namespaces and collections."""

import pytest
from server_in_process import MAPS, config_map

FINALIZER = ["x.example.com/f"]


async def test_delete(api):
    """A plain delete answers a Status that names what is gone."""
    uid = (await api.post(MAPS, config_map("a"))).body["metadata"]["uid"]

    answer = await api.delete(f"{MAPS}/a")

    assert answer.status == 200
    assert answer.body["status"] == "Success"
    assert answer.body["details"] == {"name": "a", "kind": "configmaps", "uid": uid}
    assert (await api.delete(f"{MAPS}/a")).status == 404


async def test_finalizers(api):
    """With a finalizer a delete only marks; the object goes with its last finalizer."""
    await api.post(MAPS, config_map("a", finalizers=FINALIZER))

    marked = await api.delete(f"{MAPS}/a")
    assert marked.body["metadata"]["deletionGracePeriodSeconds"] == 0
    assert marked.body["metadata"]["deletionTimestamp"]
    again = await api.post(MAPS, config_map("a"))
    assert again.body["message"] == 'object is being deleted: configmaps "a" already exists'
    more = await api.patch(f"{MAPS}/a", {"metadata": {"finalizers": [*FINALIZER, "x.example.com/g"]}})
    assert more.status == 422

    freed = await api.patch(f"{MAPS}/a", {"metadata": {"finalizers": None}})
    assert freed.status == 200
    assert (await api.get(f"{MAPS}/a")).status == 404


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
async def test_propagation(api, policy, finalizer):
    """Foreground and orphan leave their finalizer for the garbage collector."""
    await api.post(MAPS, config_map("a"))

    marked = await api.delete(f"{MAPS}/a", {"propagationPolicy": policy})

    assert marked.body["metadata"]["finalizers"] == [finalizer]
    background = await api.delete(f"{MAPS}/a?propagationPolicy=Background")
    assert background.body["kind"] == "Status"


async def test_preconditions(api):
    """A delete can be meant for one object in one state."""
    created = (await api.post(MAPS, config_map("a"))).body["metadata"]
    await api.patch(f"{MAPS}/a", {"data": {"k": "v"}})

    wrong = await api.delete(f"{MAPS}/a", {"preconditions": {"uid": "other"}})
    assert wrong.status == 409
    assert "the UID in the precondition (other) does not match the UID in record" in wrong.body["message"]
    old = await api.delete(f"{MAPS}/a", {"preconditions": {"resourceVersion": created["resourceVersion"]}})
    assert "The object might have been modified" in old.body["message"]
    assert (await api.delete(f"{MAPS}/a", {"preconditions": {"uid": created["uid"]}})).status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"propagationPolicy": "Sideways"}, 422),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422),
        ({"dryRun": ["Some"]}, 422),
        ({"gracePeriodSeconds": "x"}, 400),
        ({"kind": "Pod"}, 400),
        ([], 400),
    ],
)
async def test_bad_options(api, body, status):
    """Options that cannot be are refused."""
    await api.post(MAPS, config_map("a"))

    assert (await api.delete(f"{MAPS}/a", body)).status == status


async def test_collection(api):
    """A selection is deleted as a whole, and comes back as a list."""
    for name in "abc":
        await api.post(MAPS, config_map(name, labels={"l": name}))

    gone = await api.delete(f"{MAPS}?labelSelector=l%20in%20(a,b)")

    assert gone.body["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in gone.body["items"]] == ["a", "b"]
    rest = (await api.get(MAPS)).body["items"]
    assert [item["metadata"]["name"] for item in rest] == ["c"]


async def test_namespace_ends_in_two_steps(api):
    """A namespace is first ending, refuses new content, and goes when it is finalized."""
    path = "/api/v1/namespaces/n"
    made = await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    assert made.body["spec"]["finalizers"] == ["kubernetes"]

    ending = await api.delete(path)
    assert ending.body["status"]["phase"] == "Terminating"
    refused = await api.post(f"{path}/configmaps", config_map("a"))
    assert refused.status == 403
    assert refused.body["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace n is being terminated",
            "field": "metadata.namespace",
        }
    ]

    final = ending.body
    final["spec"]["finalizers"] = []
    assert (await api.put(f"{path}/finalize", final)).status == 200
    assert (await api.get(path)).status == 404


async def test_a_namespace_that_nothing_keeps_is_marked_first(api):
    """A namespace without finalizers is marked by the first deletion and removed by the second."""
    await api.post("/api/v1/namespaces", {"metadata": {"name": "bare"}})
    path = "/api/v1/namespaces/bare"
    await api("PUT", f"{path}/finalize", {"metadata": {"name": "bare"}, "spec": {}})

    marked = await api.delete(path)
    assert marked.body["status"] == {"phase": "Terminating"}
    assert (await api.get(path)).status == 200
    await api.delete(path)
    assert (await api.get(path)).status == 404


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_immortal_namespaces(api, name):
    """The cluster's own namespaces stay."""
    answer = await api.delete(f"/api/v1/namespaces/{name}")

    assert answer.status == 403
    assert answer.body["message"] == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
