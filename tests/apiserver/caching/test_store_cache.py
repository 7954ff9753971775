"""Values made of stored objects, and the bounded memory that the server's caches are."""

from server_in_process import Caller, close_server, config_map, open_server

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.caching.store_cache import DerivedFromStore, TwoGenerationCache


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


def test_what_was_put_is_found():
    """The newest value of a key counts, also when the older one is of the generation before."""
    memory: TwoGenerationCache[str, int] = TwoGenerationCache(2)
    for key, value in (("a", 1), ("b", 2), ("a", 3)):
        memory.put(key, value)
    assert memory.get("a") == 3
    assert memory.get("b") == 2
    assert memory.get("c") is None


def test_it_is_bounded_in_number():
    """A cache of two generations never holds more than twice its size, however much is put into it."""
    memory: TwoGenerationCache[int, int] = TwoGenerationCache(10)
    for number in range(1000):
        memory.put(number, number)
        assert len(memory) <= 20
    assert memory.get(999) == 999
    assert memory.get(0) is None


def test_what_is_asked_for_stays():
    """A key that is read in every generation is not forgotten."""
    memory: TwoGenerationCache[int, int] = TwoGenerationCache(10)
    memory.put(-1, -1)
    for number in range(1000):
        memory.put(number, number)
        assert memory.get(-1) == -1


def test_it_is_bounded_in_weight():
    """A few heavy values make a generation old as many light ones do."""
    memory: TwoGenerationCache[int, bytes] = TwoGenerationCache(1000, lambda _, value: len(value), 100)
    for number in range(1000):
        memory.put(number, bytes(30))
        memory.get(number - 1)
        held = sum(30 for key in range(number + 1) if key in memory)
        assert held <= 2 * (100 + 30)
    assert memory.get(999) is not None
