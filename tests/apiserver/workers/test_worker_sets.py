"""A server of several workers is one server to its clients, whichever worker a connection leads to."""

import asyncio
import json
import os
import signal
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio
from server_in_process import MAPS, config_map
from until import until
from worker_sets import WorkerSet, call, runs, serving_lines, worker_set

from kubeskew.apiserver.options import WorkerPlace

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("workers"),
    pytest.mark.asyncio(loop_scope="module"),
]

COUNT = 3
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkerSet]:
    """One server of three workers for all tests that leave it as it was."""
    async with worker_set(tmp_path_factory.mktemp("workers"), COUNT) as made:
        yield made


async def test_what_is_written_by_one_worker_is_read_by_all(workers: WorkerSet):
    """A read and a list at any worker see every write that was answered before, and at the same revision."""
    async with workers.sessions(COUNT) as sessions:
        for number in range(30):
            name = f"read-{number}"
            code, made = await call(sessions[number % COUNT], "post", MAPS, json=config_map(name))
            assert code == 201
            version = made["metadata"]["resourceVersion"]
            found = await asyncio.gather(*(call(each, "get", f"{MAPS}/{name}") for each in sessions))
            lists = await asyncio.gather(*(call(each, "get", MAPS) for each in sessions))
            assert [(code, each["metadata"]["resourceVersion"]) for code, each in found] == [
                (200, version)
            ] * COUNT
            assert all(name in {one["metadata"]["name"] for one in each["items"]} for _, each in lists)
            assert {each["metadata"]["resourceVersion"] for _, each in lists} == {version}


async def test_one_of_many_updates_at_a_version_is_done(workers: WorkerSet):
    """Of updates that all name the same resourceVersion, at all workers at once, one gets 200, others 409."""
    async with workers.sessions(COUNT) as sessions:
        _, made = await call(sessions[0], "post", MAPS, json=config_map("contended"))
        for turn in range(10):
            version = made["metadata"]["resourceVersion"]
            bodies = [
                config_map("contended", resourceVersion=version, data={"by": f"{turn}-{number}"})
                for number in range(4 * COUNT)
            ]
            answers = await asyncio.gather(
                *(
                    call(sessions[number % COUNT], "put", f"{MAPS}/contended", json=body)
                    for number, body in enumerate(bodies)
                )
            )
            assert Counter(code for code, _ in answers) == {200: 1, 409: 4 * COUNT - 1}
            made = next(each for code, each in answers if code == 200)


async def test_a_watch_at_each_worker_gets_all_in_one_order(workers: WorkerSet):
    """Watches at all workers get the writes of all workers, each once, in the order of their revisions."""
    async with workers.sessions(COUNT) as sessions, workers.sessions(COUNT) as watching:
        _, before = await call(sessions[0], "get", MAPS)
        since = before["metadata"]["resourceVersion"]
        watches = [asyncio.create_task(watched(each, since, 60)) for each in watching]
        made = await asyncio.gather(
            *(
                call(sessions[number % COUNT], "post", MAPS, json=config_map(f"watched-{number}"))
                for number in range(60)
            )
        )
        versions = sorted(int(each["metadata"]["resourceVersion"]) for _, each in made)
        assert await asyncio.gather(*watches) == [versions] * COUNT


async def watched(session, since: str, count: int) -> list[int]:
    found: list[int] = []
    params = {"watch": "1", "resourceVersion": since, "timeoutSeconds": "60"}
    async with session.get(MAPS, params=params) as answer:
        async for line in answer.content:
            found.append(int(json.loads(line)["object"]["metadata"]["resourceVersion"]))
            if len(found) == count:
                return found
    return found


async def test_a_policy_made_by_one_worker_holds_at_all(workers: WorkerSet):
    """A policy is enforced at other workers within a second, and so is its end."""
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "none-so-named"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": ["configmaps"],
                    }
                ]
            },
            "validations": [{"expression": "object.metadata.name != 'unwanted'"}],
        },
    }  # fmt: skip
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "none-so-named"},
        "spec": {"policyName": "none-so-named", "validationActions": ["Deny"]},
    }
    dry = {"dryRun": "All"}
    async with workers.sessions(COUNT) as sessions:

        async def refused_by(number: int) -> bool:
            code, _ = await call(sessions[number], "post", MAPS, json=config_map("unwanted"), params=dry)
            return code == 422

        assert [await refused_by(number) for number in range(COUNT)] == [False] * COUNT
        for path, body in ((POLICIES, policy), (BINDINGS, binding)):
            assert (await call(sessions[0], "post", path, json=body))[0] == 201
        for number in range(COUNT):
            await until(lambda number=number: refused_by(number), 1)
        assert (await call(sessions[1], "delete", f"{BINDINGS}/none-so-named"))[0] == 200
        for number in range(COUNT):
            await until(lambda number=number: _not(refused_by(number)), 1)
        await call(sessions[1], "delete", f"{POLICIES}/none-so-named")


async def _not(found) -> bool:
    return not await found


async def test_a_quota_is_kept_by_all_workers_together(workers: WorkerSet):
    """Of creates at all workers at once exactly as many are done as the quota allows."""
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
        "spec": {"hard": {"count/secrets": "10"}},
    }  # fmt: skip
    here = "/api/v1/namespaces/limited"
    async with workers.sessions(COUNT) as sessions:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "limited"}}
        await call(sessions[0], "post", "/api/v1/namespaces", json=space)
        _, made = await call(sessions[0], "post", f"{here}/resourcequotas", json=quota)
        made["status"] = {"hard": {"count/secrets": "10"}, "used": {"count/secrets": "0"}}
        code, _ = await call(sessions[0], "put", f"{here}/resourcequotas/few/status", json=made)
        assert code == 200

        async def create(number: int) -> int:
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"s{number}"}}
            return (await call(sessions[number % COUNT], "post", f"{here}/secrets", json=body))[0]

        codes = Counter(await asyncio.gather(*map(create, range(24))))
        _, found = await call(sessions[1], "get", f"{here}/secrets")
        _, after = await call(sessions[2], "get", f"{here}/resourcequotas/few")
        assert codes[201] == len(found["items"]) == 10, codes
        assert after["status"]["used"] == {"count/secrets": "10"}


async def test_services_of_all_workers_have_addresses_of_their_own(workers: WorkerSet):
    """No cluster IP and no node port is given twice."""
    path = "/api/v1/namespaces/default/services"
    async with workers.sessions(COUNT) as sessions:

        async def create(number: int) -> tuple[str, int]:
            body = {
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": f"s{number}"},
                "spec": {"type": "NodePort", "ports": [{"port": 80}]},
            }  # fmt: skip
            code, made = await call(sessions[number % COUNT], "post", path, json=body)
            assert code == 201, made
            return made["spec"]["clusterIP"], made["spec"]["ports"][0]["nodePort"]

        made = await asyncio.gather(*map(create, range(45)))
        assert len({address for address, _ in made}) == len({port for _, port in made}) == 45


async def test_metrics_are_those_of_all_workers(workers: WorkerSet):
    """Requests are counted together wherever they were answered, stored objects and limits once."""

    def value(text: str, start: str) -> float:
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(start))

    async with workers.sessions(COUNT) as sessions:

        async def metrics(number: int) -> str:
            async with sessions[number].get("/metrics") as answer:
                return await answer.text()

        asked = (
            'apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="podtem'
        )
        before = [value(await metrics(number), asked) for number in range(COUNT)]
        for number in range(12):
            await call(sessions[number % COUNT], "get", "/api/v1/podtemplates")
        after = [await metrics(number) for number in range(COUNT)]
        assert [value(text, asked) for text in after] == [before[0] + 12] * COUNT
        namespaces = 'apiserver_resource_objects{group="",resource="namespaces"}'
        _, listed = await call(sessions[0], "get", "/api/v1/namespaces")
        assert {value(text, namespaces) for text in after} == {len(listed["items"])}


@pytest.mark.parametrize(("limit", "count", "parts"), [(600, 3, [200] * 3), (400, 3, [134, 133, 133]),
                                                       (0, 3, [0] * 3), (2, 3, [1] * 3)])  # fmt: skip
async def test_a_limit_is_divided(limit: int, count: int, parts: list[int]):
    """The parts of the workers add up to the limit, but that each may do one thing at a time."""
    assert [WorkerPlace(number, count).share(limit) for number in range(1, count + 1)] == parts


async def test_no_connection_outlives_its_worker_and_no_other_ends(tmp_path):
    """A killed worker's clients lose their connection, those of the others keep theirs; the port answers
    throughout, and another process takes the place of the killed one.
    """
    async with worker_set(tmp_path, COUNT) as workers, workers.sessions(COUNT) as sessions:
        pids = workers.children
        assert len(pids) == COUNT + 1
        os.kill(pids[2], signal.SIGKILL)
        await until(lambda: not runs(pids[2]))
        async with workers.session() as fresh:
            assert (await call(fresh, "get", "/version"))[0] == 200
        await until(lambda: len(workers.children) == COUNT + 1)
        await until(lambda: sum("started again" in line for line in workers.log) == 1)
        await until(lambda: Counter(map(transport_is_lost, sessions)) == {True: 1, False: COUNT - 1})


def transport_is_lost(session) -> bool:
    """Says whether the session has no connection left to use again."""
    pools = session.connector._conns.values()
    return not any(protocol.is_connected() for pool in pools for protocol, _ in pool)


async def test_one_start_and_one_end_are_recorded(tmp_path):
    """The time line shows one server, whatever becomes of its processes; SIGTERM ends them all."""
    async with worker_set(tmp_path, 2) as workers:
        for place in range(3):  # the writer, then each worker
            killed = workers.children[0]
            os.kill(killed, signal.SIGKILL)
            await until(lambda place=place: sum("started again" in line for line in workers.log) == place + 1)
            await until(lambda: len(workers.children) == 3)
        pids = workers.children
        assert await workers.stop() == 0
        assert not any(map(runs, pids))
    assert _recorded(tmp_path) == [("apiserver", "started"), ("apiserver", "stopped")]


def _recorded(directory: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(directory / "log.db")) as log:
        return log.execute("select component, what from timeline order by seq").fetchall()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_to_the_whole_group_ends_the_server_in_order(tmp_path, number):
    """Ctrl-C in a terminal goes to every process of the group: the end is recorded, and nothing is left."""
    async with worker_set(tmp_path, 2) as workers:
        pids = workers.children
        os.killpg(workers.process.pid, number)
        assert await workers.process.wait() == 0
        assert not any(map(runs, pids))
    assert _recorded(tmp_path) == [("apiserver", "started"), ("apiserver", "stopped")]


async def test_a_worker_that_is_told_to_end_is_replaced(tmp_path):
    """SIGTERM to a worker ends that worker: the others go on to take connections, and so does the next."""
    async with worker_set(tmp_path, 2) as workers:
        for place in (2, 1):
            seen = len(serving_lines(workers.log))
            os.kill(workers.children[place], signal.SIGTERM)
            async with workers.session() as session:
                assert (await call(session, "get", "/version"))[0] == 200
            await until(lambda seen=seen: len(serving_lines(workers.log)) > seen)
            async with workers.sessions(2) as sessions:
                assert [(await call(each, "get", "/version"))[0] for each in sessions] == [200, 200]


async def test_a_writer_that_dies_during_the_end_is_replaced(tmp_path):
    """The workers' last writes need a writer: the end is recorded, though it was killed after SIGTERM."""
    async with worker_set(tmp_path, 2) as workers:
        writer = workers.children[0]
        workers.process.send_signal(signal.SIGTERM)
        os.kill(writer, signal.SIGKILL)
        assert await workers.process.wait() == 0
    assert _recorded(tmp_path) == [("apiserver", "started"), ("apiserver", "stopped")]


async def test_workers_end_with_their_parent(tmp_path):
    """Nothing is left of a server whose first process is killed."""
    async with worker_set(tmp_path, 2) as workers:
        pids = workers.children
        await workers.stop(signal.SIGKILL)
        await until(lambda: not any(map(runs, pids)))


async def test_a_port_in_use_ends_the_start(tmp_path):
    """A server that cannot have its port says so, and ends with all its processes."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with worker_set(tmp_path / "one", 2) as workers:
        port = workers.url.rpartition(":")[2]
        with pytest.raises(AssertionError, match="cannot run"):
            async with worker_set(tmp_path / "two", 2, "--secure-port", port):
                pass
