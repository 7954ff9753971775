"""Values made of stored objects."""

from server_in_process import Caller, close_server, config_map, open_server

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.caching.store_cache import DerivedFromStore


async def test_a_derived_value_is_made_again_only_when_its_resource_changed() -> None:
    """Reading twice makes the value once; a write to the resource, and to no other, makes it again."""
    server = await open_server()
    try:
        api, made = Caller(server), []

        def names(objects: list[Object]) -> list[str]:
            made.append(len(objects))
            return [obj["metadata"]["name"] for obj in objects]

        derived = DerivedFromStore(server.services.store, ["configmaps"], names)
        before = derived.get()

        await api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})

        assert derived.get() is before
        assert len(made) == 1

        await api.post("/api/v1/namespaces/default/configmaps", config_map("new"))

        assert set(derived.get()) == {*before, "new"}
        assert len(made) == 2
    finally:
        await close_server(server)
