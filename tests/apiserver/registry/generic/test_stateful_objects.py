"""Several clients change the same few objects in any order; a model knows what there must be afterwards."""

import asyncio
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from randomness import examples
from server_in_process import MAPS, Answer, Caller, close_server, config_map, open_server

NAMES = st.sampled_from(("a", "b", "c"))
CLIENTS = st.sampled_from(("kubectl", "controller", "tester"))
DATA = st.dictionaries(st.sampled_from(("x", "y", "z")), st.sampled_from(("0", "1", "2")), max_size=3)


class Objects(RuleBasedStateMachine):
    """ConfigMaps under create, update, patch, apply and delete, next to a watch that sees all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.server = self.run(open_server())
        self.api = Caller(self.server)
        self.objects: dict[str, Any] = {}  # as last answered
        self.stale: dict[str, str] = {}  # an older resourceVersion of an object
        self.written: list[tuple[str, str, int]] = []  # (type, name, revision), as a watch must show
        self.revision = 0
        self.events: list[tuple[str, Any]] = []
        start = self.run(self.api.get(MAPS)).body["metadata"]["resourceVersion"]
        self.watcher = self.loop.create_task(self.follow(start))

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    async def follow(self, start: str) -> None:
        async for event in self.api.watch(f"{MAPS}?watch=1&resourceVersion={start}"):
            self.events.append(event)

    def call(self, client: str, method: str, target: str, body: Any = None, **headers: str) -> Answer:
        return self.run(self.api(method, target, body, user_agent=client, **headers))

    def wrote(self, answer: Answer, name: str) -> None:
        """Take in what a write answered: a new revision, or the old one where nothing changed."""
        revision = int(answer.body["metadata"]["resourceVersion"])
        old = self.objects.get(name)
        if old is not None and int(old["metadata"]["resourceVersion"]) == revision:
            assert answer.body == old
            return
        assert revision > self.revision
        if old is not None:
            assert answer.body["metadata"]["uid"] == old["metadata"]["uid"]
            self.stale[name] = old["metadata"]["resourceVersion"]
        self.written.append(("MODIFIED" if old is not None else "ADDED", name, revision))
        self.revision, self.objects[name] = revision, answer.body

    @rule(client=CLIENTS, name=NAMES, data=DATA)
    def create(self, client: str, name: str, data: dict[str, str]) -> None:
        answer = self.call(client, "POST", MAPS, config_map(name, data=data))
        assert answer.status == (409 if name in self.objects else 201)
        if answer.status == 201:
            assert answer.body.get("data", {}) == data
            self.wrote(answer, name)

    @rule(client=CLIENTS, name=NAMES, data=DATA)
    def update(self, client: str, name: str, data: dict[str, str]) -> None:
        """Without a precondition: it wins if there is such an object."""
        answer = self.call(client, "PUT", f"{MAPS}/{name}", config_map(name, data=data))
        assert answer.status == (200 if name in self.objects else 404)
        if answer.status == 200:
            assert answer.body.get("data", {}) == data
            self.wrote(answer, name)

    @precondition(lambda self: self.stale)
    @rule(client=CLIENTS, data=DATA, newest=st.booleans(), chosen=st.data())
    def update_at(self, client: str, data: dict[str, str], newest: bool, chosen: Any) -> None:
        """With a resourceVersion: only the newest one will do."""
        name = chosen.draw(st.sampled_from(sorted(self.stale)))
        live = self.objects.get(name)
        version = live["metadata"]["resourceVersion"] if newest and live else self.stale[name]
        body = config_map(name, data=data, resourceVersion=version)
        answer = self.call(client, "PUT", f"{MAPS}/{name}", body)
        assert answer.status == (404 if live is None else 200 if newest else 409)
        if answer.status == 200:
            self.wrote(answer, name)

    @rule(client=CLIENTS, name=NAMES, key=st.sampled_from(("x", "y")), value=st.sampled_from(("0", None)))
    def merge(self, client: str, name: str, key: str, value: str | None) -> None:
        kind = "application/merge-patch+json"
        answer = self.call(client, "PATCH", f"{MAPS}/{name}", {"data": {key: value}}, content_type=kind)
        assert answer.status == (200 if name in self.objects else 404)
        if answer.status == 200:
            wanted = {**self.objects[name].get("data", {}), key: value}
            assert answer.body.get("data", {}) == {k: v for k, v in wanted.items() if v is not None}
            self.wrote(answer, name)

    @rule(client=CLIENTS, name=NAMES, data=DATA)
    def apply(self, client: str, name: str, data: dict[str, str]) -> None:
        target = f"{MAPS}/{name}?fieldManager=applier-{client}&force=true"
        body = config_map(name, data=data)
        answer = self.call(client, "PATCH", target, body, content_type="application/apply-patch+yaml")
        assert answer.status == (200 if name in self.objects else 201)
        assert data.items() <= answer.body.get("data", {}).items()
        self.wrote(answer, name)

    @rule(client=CLIENTS, name=NAMES)
    def delete(self, client: str, name: str) -> None:
        answer = self.call(client, "DELETE", f"{MAPS}/{name}")
        assert answer.status == (200 if name in self.objects else 404)
        if answer.status == 200:
            self.stale[name] = self.objects.pop(name)["metadata"]["resourceVersion"]
            self.revision = int(self.run(self.api.get(MAPS)).body["metadata"]["resourceVersion"])
            self.written.append(("DELETED", name, self.revision))

    @invariant()
    def lists_are_the_model(self) -> None:
        found = self.run(self.api.get(MAPS)).body
        assert [obj["metadata"]["name"] for obj in found["items"]] == sorted(self.objects)
        assert int(found["metadata"]["resourceVersion"]) >= self.revision
        for obj in found["items"]:
            assert {**obj, "kind": "ConfigMap", "apiVersion": "v1"} == self.objects[obj["metadata"]["name"]]

    @invariant()
    def managers_own_what_there_is(self) -> None:
        for obj in self.objects.values():
            managers = obj["metadata"].get("managedFields", [])
            marks = [
                (manager["manager"], manager["operation"], manager.get("subresource")) for manager in managers
            ]
            assert len(set(marks)) == len(marks)
            owned = set()
            for manager in managers:
                assert manager["fieldsType"] == "FieldsV1"
                assert manager["apiVersion"] == "v1"
                owned |= {key for key in manager["fieldsV1"].get("f:data", {}) if key != "."}
            if managers:  # upstream begins with what is there at its creation, or with the first apply
                assert owned == {f"f:{key}" for key in obj.get("data", {})}

    async def settled(self) -> None:
        while len(self.events) < len(self.written):
            assert not self.watcher.done()
            await asyncio.sleep(0)

    @invariant()
    def watches_have_everything_in_order(self) -> None:
        self.run(asyncio.wait_for(self.settled(), 30))
        events = [
            (kind, obj["metadata"]["name"], int(obj["metadata"]["resourceVersion"]))
            for kind, obj in self.events
        ]
        assert events == self.written

    def teardown(self) -> None:
        self.watcher.cancel()
        self.run(asyncio.gather(self.watcher, return_exceptions=True))
        self.run(close_server(self.server))
        self.loop.close()


Objects.TestCase.settings = settings(
    max_examples=examples(6), stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
TestObjects = Objects.TestCase
