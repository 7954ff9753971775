"""What writers, watchers and the store do to each other."""

import pytest
from server_in_process import MAPS, config_map

NAMESPACED = "/api/v1/namespaces/default"


@pytest.mark.parametrize("kind", ["merge", "strategic", "json"])
async def test_a_patch_creates_nothing(api, kind):
    """What is not there cannot be patched, even where a PUT would create it."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]},
    }
    body = [{"op": "add", "path": "/spec", "value": service["spec"]}] if kind == "json" else service

    answer = await api.patch(f"{NAMESPACED}/services/s", body, kind)

    assert answer.status == 404
    assert answer.body["message"] == 'services "s" not found'
    assert (await api.put(f"{NAMESPACED}/services/s", service)).status == 201


async def test_a_watch_shows_the_object_as_it_was_stored_last(api, server):
    """The change that lets go of the last finalizer is not seen any more, as etcd never stored it."""
    await api.post(MAPS, config_map("a", finalizers=["x.example.com/f"], labels={"l": "1"}))
    await api.delete(f"{MAPS}/a")
    revision = server.services.store.revision

    freed = await api.patch(f"{MAPS}/a", {"metadata": {"finalizers": None, "labels": {"l": "2"}}})
    assert freed.body["metadata"]["labels"] == {"l": "2"}

    for selector in ("", "&labelSelector=l%3D1"):
        target = f"{MAPS}?watch=true&resourceVersion={revision}&timeoutSeconds=10{selector}"
        kind, obj = await anext(api.watch(target))
        assert kind == "DELETED"
        assert obj["metadata"]["labels"] == {"l": "1"}
        assert obj["metadata"]["finalizers"] == ["x.example.com/f"]
        assert obj["metadata"]["resourceVersion"] == str(revision + 1)
