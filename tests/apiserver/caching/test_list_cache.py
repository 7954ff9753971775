"""Lists that are put together from what earlier lists were made of."""

import json
import random
from collections.abc import Iterable, Sequence
from typing import cast

import pytest
from randomness import SEED

from kubeskew.apimachinery.catalogue.table import Catalogue
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.versions import DEFAULT_VERSION
from kubeskew.apiserver.caching import list_cache
from kubeskew.apiserver.caching.list_cache import ListCache
from kubeskew.apiserver.storage.records import Entry, Key


class StoredForms:
    """Serves what is stored, and counts the objects that it is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def form_of(self, resource: Resource) -> str:
        return resource.api_version

    def served_all(self, resource: Resource, entries: Iterable[Entry]) -> list[tuple[bytes, int]]:
        served = [(entry.value, entry.revision) for entry in entries]
        self.asked += len(served)
        return served


class Lists:
    """Lists pods, by name, and counts the objects that this takes."""

    def __init__(self) -> None:
        table = Catalogue(DEFAULT_VERSION, FeatureGates(DEFAULT_VERSION))
        self._pods = cast("Resource", table.by_kind("", "v1", "Pod"))
        self.forms = StoredForms()
        self._listed = ListCache()
        self.pods: dict[str, Entry] = {}
        self._revision = 0

    def put(self, name: str) -> None:
        self._revision += 1
        value = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%b"}}' % name.encode()
        key = Key("pods", "default", name)
        self.pods[name] = Entry(key, "", self._revision, self._revision, value)

    async def unkept(self, entries: Sequence[Entry]) -> int:
        """Returns how many objects had to be looked at."""
        before = self.forms.asked
        for make in await self._listed.runs(self.forms, self._pods, entries, keep=False):
            make()
        return self.forms.asked - before

    async def list(self, first: int = 0, limit: int | None = None) -> int:
        """Returns how many objects had to be looked at; checks what came."""
        entries = [self.pods[name] for name in sorted(self.pods)][first:][:limit]
        before = self.forms.asked
        runs = await self._listed.runs(self.forms, self._pods, entries, keep=True)
        items = json.loads(b"[%b]" % b"".join(make() for make in runs)[1:])
        found = [(item["metadata"]["name"], item["metadata"]["resourceVersion"]) for item in items]
        assert found == [(entry.key.name, str(entry.revision)) for entry in entries]
        return self.forms.asked - before


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Lists:
    """A thousand pods, of which about ten make a run."""
    monkeypatch.setattr(list_cache, "_RUN_BYTES", 600)
    made = Lists()
    for number in range(1000):
        made.put(f"pod-{number:04}")
    return made


async def test_only_runs_with_changes_are_made_again(lists: Lists) -> None:
    """A list looks at the neighbours of what was written since the last one, and at nothing else."""
    assert await lists.list() == 1000
    assert await lists.list() == 0
    lists.put("pod-0500")
    assert 0 < await lists.list() <= 20
    del lists.pods["pod-0700"]
    assert 0 < await lists.list() <= 20
    lists.put("pod-0300-more")
    assert 0 < await lists.list() <= 20
    assert await lists.list() == 0


@pytest.mark.random
async def test_lists_say_what_is_there_after_any_change(lists: Lists) -> None:
    """Lists and chunks of them are right after any writes, and runs do not fall to pieces."""
    chance = random.Random(SEED)
    for _ in range(300):
        for _ in range(chance.randrange(4)):
            name = f"pod-{chance.randrange(1000):04}{chance.choice(['', '-a', '-b'])}"
            if name in lists.pods and chance.random() < 0.4:
                del lists.pods[name]
            else:
                lists.put(name)
        if chance.random() < 0.3:
            await lists.list(chance.randrange(900), 100)
        await lists.list()
    lists.put("pod-0500")
    assert await lists.list() <= 30


async def test_what_is_not_kept_is_made_each_time(lists: Lists) -> None:
    """Lists of what a selector selects leave nothing behind."""
    entries = list(lists.pods.values())[::100]
    again = [await lists.unkept(entries) for _ in range(2)]

    assert again == [10, 10]
