"""Keeps what this server knows of the objects that it writes, whichever verb or subresource writes them."""

from pathlib import Path
from typing import Any

import pytest

from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.registry.codec import Codec
from kubeskew.apiserver.registry.generic import registry as registry_module
from kubeskew.apiserver.storage.records import Verb

PODS = "/api/v1/namespaces/default/pods"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


async def _write_in_every_way(api: Any) -> None:
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "n"}}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert (await api.post(PODS, POD)).status == 201
    assert (await api.post(f"{PODS}/a/binding", binding)).status == 201
    assert (await api.patch(f"{PODS}/a", {"metadata": {"labels": {"app": "b"}}})).status == 200
    assert (await api.patch(f"{PODS}/a/status", {"status": {"phase": "Running"}})).status == 200
    pod = (await api.get(f"{PODS}/a")).body
    pod["metadata"]["annotations"] = {"put": "yes"}
    assert (await api.put(f"{PODS}/a", pod)).status == 200
    assert (await api.post(f"{PODS}/a/eviction", eviction)).status == 201
    assert (await api.delete(f"{PODS}/a?gracePeriodSeconds=0")).status == 200


async def test_what_this_server_writes_is_served_without_decoding_it(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a watcher nor its selector decodes an object that this server has written, by any verb."""
    services = api.server.services
    examined: list[bytes] = []
    examine = Codec._examine

    def count(codec: Codec, resource: Resource, value: bytes) -> bytes | bool:
        if b'"kind":"Pod"' in value:
            examined.append(value)
        return examine(codec, resource, value)

    monkeypatch.setattr(Codec, "_examine", count)
    before = services.store.revision
    await _write_in_every_way(api)
    written = [event for event in await services.log.after(before, 1000) if event.key.resource == "pods"]
    registry = services.registry(services.table.by_kind("", "v1", "Pod"))
    monkeypatch.setattr(registry_module, "loads", lambda _: pytest.fail("the labels were not kept"))

    for event in written:
        assert services.codec.served(registry.resource, event.value, event.revision) is event.value
        if event.verb is not Verb.DELETE:
            registry.selectable(event.value, event.revision)

    assert [event.verb for event in written] == [Verb.CREATE, *[Verb.UPDATE] * 7, Verb.DELETE]
    assert not examined


def test_writes_go_through_one_module() -> None:
    """No module of the server but the registry hands the store a change, so none can forget to keep it."""
    folder = Path(registry_module.__file__).parents[2]
    writing = [path for path in sorted(folder.rglob("*.py")) if "store.write(" in path.read_text()]
    assert [path.relative_to(folder) for path in writing] == [Path("registry/generic/registry.py")]
