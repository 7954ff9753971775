"""Lists by label find the same objects by an index as by comparing all."""

import random
from collections.abc import Sequence

import pytest
from server_in_process import Caller, config_map

from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.apiserver.handlers import list_objects
from kubeskew.apiserver.registry.generic import label_index
from kubeskew.apiserver.registry.generic.label_index import LABELS_MAX, LabelIndex
from kubeskew.apiserver.storage.records import Entry

NAMESPACES = ("default", "a", "a-b")
VALUES = ("x", "y", "z", "", "v", "w", "u")
SELECTORS = (
    "app=x", "app==y", "app=", "app=none", "app=x,tier=y", "tier=z,app!=x", "app in (x,y)", "tier",
    "!tier,app=z",
)  # fmt: skip


@pytest.fixture(autouse=True)
def indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few objects are enough for an index."""
    monkeypatch.setattr(list_objects, "_CHECKS", 5)


class Objects:
    """Config maps with labels, in several namespaces, and what is known of them."""

    def __init__(self, api: Caller, seed: int) -> None:
        self.api = api
        self.draw = random.Random(seed)
        self.labels: dict[tuple[str, str], dict[str, str]] = {}

    async def change(self) -> None:
        """Creates, relabels or deletes one."""
        place = self.draw.choice(NAMESPACES), f"m{self.draw.randrange(40)}"
        path = f"/api/v1/namespaces/{place[0]}/configmaps"
        labels = {key: self.draw.choice(VALUES) for key in ("app", "tier") if self.draw.randrange(3)}
        if place not in self.labels:
            answer = await self.api.post(path, config_map(place[1], labels=labels))
        elif self.draw.randrange(3):
            answer = await self.api.put(f"{path}/{place[1]}", config_map(place[1], labels=labels))
        else:
            answer = await self.api.delete(f"{path}/{place[1]}")
            del self.labels[place]
            assert answer.status == 200
            return
        assert answer.status in {200, 201}
        self.labels[place] = labels


@pytest.fixture
async def objects(api: Caller) -> Objects:
    """Some objects in namespaces of which one is the beginning of another."""
    for name in NAMESPACES[1:]:
        await api.post(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
    made = Objects(api, 7)
    for _ in range(80):
        await made.change()
    return made


async def listed(api: Caller, path: str, limit: int) -> list[tuple[str, str]]:
    """Every page of a list, in order."""
    found, token = [], ""
    while True:
        body = (await api.get(f"{path}&limit={limit}&continue={token}")).body
        found += [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in body["items"]]
        token = body["metadata"].get("continue", "")
        if not token:
            return found


async def test_lists_by_label_are_those_of_a_comparison_of_all(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
):
    """Whatever was written since the index was made, the same objects are found in the same order."""

    used, by_label = [], LabelIndex.candidates

    async def counted(index: LabelIndex, selector: LabelSelector) -> Sequence[Entry] | None:
        found = await by_label(index, selector)
        used.append(found is not None)
        return found

    async def none(index: LabelIndex, selector: LabelSelector) -> None:
        return None

    monkeypatch.setattr(LabelIndex, "candidates", counted)
    for _ in range(40):
        for _ in range(4):
            await objects.change()
        selector = objects.draw.choice(SELECTORS).replace("=", "%3D").replace(" ", "%20")
        where = objects.draw.choice(["", "/namespaces/a", "/namespaces/default"])
        path, limit = (
            f"/api/v1{where}/configmaps?labelSelector={selector}",
            objects.draw.choice([0, 0, 3, 50]),
        )
        by_index = await listed(objects.api, path, limit)
        with monkeypatch.context() as patched:
            patched.setattr(LabelIndex, "candidates", none)
            compared = await listed(objects.api, path, limit)
        assert by_index == compared
    assert sum(used) > 10


async def test_no_more_labels_are_indexed_than_the_bound(objects: Objects):
    """Lists by ever other labels are answered, and hold no more memory."""
    for number in range(LABELS_MAX + 5):
        answer = await objects.api.get(f"/api/v1/configmaps?labelSelector=l{number}%3Dx")
        assert answer.body["items"] == []
    registry = objects.api.server.services.registry(
        objects.api.server.services.table.resource("", "v1", "configmaps")
    )
    assert len(registry.label_index._labels) == LABELS_MAX


async def test_an_exact_list_is_of_its_revision(objects: Objects, monkeypatch: pytest.MonkeyPatch):
    """A write while the index is brought up to date does not come into a list at an earlier revision."""
    by_label, written = LabelIndex.candidates, []

    async def written_meanwhile(index: LabelIndex, selector: LabelSelector) -> Sequence[Entry] | None:
        answer = await objects.api.post(
            "/api/v1/namespaces/a/configmaps", config_map("late", labels={"app": "x"})
        )
        written.append(answer.status)
        return await by_label(index, selector)

    before = await objects.api.get("/api/v1/configmaps?labelSelector=app%3Dx")
    revision = before.body["metadata"]["resourceVersion"]
    monkeypatch.setattr(LabelIndex, "candidates", written_meanwhile)
    exact = f"resourceVersion={revision}&resourceVersionMatch=Exact"
    found = await objects.api.get(f"/api/v1/configmaps?labelSelector=app%3Dx&{exact}")
    assert written == [201]
    assert found.body["metadata"]["resourceVersion"] == revision
    assert found.body["items"] == before.body["items"]


async def test_a_label_that_no_list_asks_for_is_dropped(objects: Objects, monkeypatch: pytest.MonkeyPatch):
    """Objects that come and go do not fill an index that nobody reads, and a later list makes it again."""
    monkeypatch.setattr(label_index, "_UNREAD_MOST", 20)
    by_app = "/api/v1/configmaps?labelSelector=rare%3Dx"
    await objects.api.get(by_app)
    index = objects.api.server.services.registry(
        objects.api.server.services.table.resource("", "v1", "configmaps")
    ).label_index
    assert "rare" in index._labels
    for number in range(30):
        path = "/api/v1/namespaces/a/configmaps"
        await objects.api.post(path, config_map(f"brief-{number}"))
        await objects.api.delete(f"{path}/brief-{number}")
    assert "rare" not in index._labels
    await objects.api.post("/api/v1/namespaces/a/configmaps", config_map("found", labels={"rare": "x"}))
    assert [item["metadata"]["name"] for item in (await objects.api.get(by_app)).body["items"]] == ["found"]
