"""The client of CRI v1 with a runtime whose calls are late or fail."""

import asyncio
import contextlib
import random

import grpc
import pytest
from drawn_calls import DrawnCalls, unavailable

from kubeskew.kubelet.containers.remote.requests import POD_UID
from kubeskew.kubelet.containers.remote.runtime import RemotePlace, RemoteRuntime
from kubeskew.kubelet.containers.runtime_service import (
    ContainerConfig,
    ContainerRuntimeError,
    ContainerStartError,
    ImageError,
    PodSandboxConfig,
)
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

pytestmark = pytest.mark.looptime


@pytest.fixture
def calls(clock):
    return DrawnCalls(clock)


@pytest.fixture
def runtime(tmp_path, clock, calls):
    return runtime_at(tmp_path, clock, calls)


def runtime_at(root, clock, calls):
    place = RemotePlace(root / "requests", root / "logs", root / "seccomp", "127.0.0.1")
    return RemoteRuntime(calls.endpoint, "node-1", place, clock, calls=calls)


def pod(root, uid="a"):
    return PodSandboxConfig(uid, "default", uid, uid, root / "logs" / f"default_{uid}_{uid}")


MAIN = ContainerConfig("main", "busybox", ["sleep", "1000"])


async def test_garbage_spares_what_starts_meanwhile(tmp_path, runtime, calls):
    """The files of a pod that starts while the runtime lists its pods stay."""
    await runtime.load()

    async def start(_request):
        del calls.after["ListContainers"]
        sandbox = await runtime.run_pod_sandbox(pod(tmp_path))
        await runtime.start_container(sandbox, MAIN)

    (tmp_path / "requests" / "containers").mkdir()
    (tmp_path / "requests" / "containers" / "gone").touch()
    calls.after["ListContainers"] = start
    await runtime._collect_once()
    kept = [
        path.name for kind in ("sandboxes", "containers") for path in (tmp_path / "requests" / kind).iterdir()
    ]
    assert kept == [*calls.sandboxes, *calls.containers]


async def test_a_late_look_does_not_bring_a_pod_back(tmp_path, runtime, calls):
    """A pod that is removed while its status is on the way is gone, and so is one whose removal a look
    overlapped."""
    await runtime.load()
    await runtime.run_pod_sandbox(pod(tmp_path))
    [status] = calls.sandboxes.values()
    calls.StopPodSandbox(messages.StopPodSandboxRequest(pod_sandbox_id=status.id))  # somebody else

    async def remove(_request):
        del calls.after["PodSandboxStatus"]
        await runtime.remove_pod_sandbox("a")

    calls.after["PodSandboxStatus"] = remove
    for _ in range(3):
        await runtime._cache.relist()
        assert runtime.sandbox("a") is None
    assert not calls.sandboxes


async def test_a_look_that_another_change_overtook_is_made_again(tmp_path, runtime, calls):
    """A container that is started while the pod is looked at is known; nothing of the late look is kept."""
    await runtime.load()
    sandbox = await runtime.run_pod_sandbox(pod(tmp_path))
    first = await runtime.start_container(sandbox, MAIN)

    async def start(_request):
        del calls.after["ContainerStatus"]
        await runtime.start_container(sandbox, ContainerConfig("other", "busybox"))

    calls.after["ContainerStatus"] = start
    calls.end(calls.containers[first.id][1], 3)
    await runtime._cache.relist()
    assert [each.name for each in sandbox.containers] == ["main", "other"]
    await runtime._cache.relist()
    assert [(each.name, each.exit_code) for each in sandbox.containers] == [("main", 3), ("other", 0)]


async def test_a_pod_that_cannot_be_looked_at_holds_no_other_up(tmp_path, clock, runtime, calls, caplog):
    """The others are known, the failure is logged, and the pod is looked at with the next list; a
    pod that has run on before its kubelet started gets no second sandbox."""
    await runtime.load()
    for uid in "abc":
        await runtime.run_pod_sandbox(pod(tmp_path, uid))
    ids = [*calls.sandboxes]
    calls.refused["PodSandboxStatus", ids[0]] = unavailable()
    after = runtime_at(tmp_path, clock, calls)
    changed = []
    after.on_change = changed.append
    await after.load()
    assert [each.pod_uid for each in after.sandboxes()] == changed == ["b", "c"]
    assert [each.getMessage() for each in caplog.records] == [
        "cannot look at pod a: rpc error: code = Unavailable desc = drawn"
    ]
    with pytest.raises(ContainerRuntimeError, match="drawn"):
        await after.run_pod_sandbox(pod(tmp_path, "a"))
    calls.refused.clear()
    assert (await after.run_pod_sandbox(pod(tmp_path, "a"))).id == ids[0]
    calls.StopPodSandbox(messages.StopPodSandboxRequest(pod_sandbox_id=ids[0]))
    calls.refused["PodSandboxStatus", ids[0]] = unavailable()
    await after._cache.relist()
    assert after.sandbox("a").ready
    calls.refused.clear()
    await after._cache.relist()
    assert not after.sandbox("a").ready
    assert (changed, [*calls.sandboxes]) == (["b", "c", "a"], ids)


async def test_a_sandbox_that_cannot_be_removed_keeps_no_other(tmp_path, clock, runtime, calls, caplog):
    """The others are removed, by the collection and when a pod goes; the failure is logged once."""
    await runtime.load()
    for uid in "aabb":
        sandbox = await runtime.run_pod_sandbox(pod(tmp_path, uid))
        if len(calls.sandboxes) % 2:
            await runtime.stop_pod_sandbox(sandbox)
    first, second, third, fourth = calls.sandboxes
    calls.refused["RemovePodSandbox", first] = unavailable()
    async with asyncio.TaskGroup() as group:
        collecting = group.create_task(runtime._collect())
        await clock.sleep(61)
        assert [*calls.sandboxes] == [first, second, fourth]
        collecting.cancel()
    assert [each.getMessage() for each in caplog.records] == [
        "node node-1: cannot collect garbage: rpc error: code = Unavailable desc = drawn"
    ]
    with pytest.raises(ContainerRuntimeError, match="drawn"):
        await runtime.remove_pod_sandbox("a")
    assert [*calls.sandboxes] == [first, fourth]
    calls.refused.clear()
    await runtime.remove_pod_sandbox("a")
    assert [*calls.sandboxes] == [fourth]
    assert third not in calls.sandboxes


async def test_a_container_that_runs_counts_as_started(tmp_path, runtime, calls):
    """No failure of a later call makes its start one; the record is of the request until somebody can look,
    and is then the same one."""
    await runtime.load()
    sandbox = await runtime.run_pod_sandbox(pod(tmp_path))

    async def fail(_request):
        raise unavailable()

    calls.before["PodSandboxStatus"] = fail
    container = await runtime.start_container(sandbox, MAIN)
    assert (container.name, container.attempt, container.argv) == ("main", 0, ["sleep", "1000"])
    assert (container.image, container.container_id) == ("busybox", f"drawn://{container.id}")
    assert runtime._log(sandbox, container) == tmp_path / "logs" / "default_a_a" / "main" / "0.log"
    assert runtime.sandbox("a").containers == [container]
    calls.before.clear()
    calls.end(calls.containers[container.id][1], 3)
    await runtime._cache.relist()
    assert (runtime.sandbox("a").containers, container.exit_code) == ([container], 3)


async def test_a_start_that_fails_is_one_also_if_nobody_can_look(tmp_path, runtime, calls):
    """The error is that of the start."""
    await runtime.load()
    sandbox = await runtime.run_pod_sandbox(pod(tmp_path))

    async def fail(_request):
        raise unavailable()

    calls.before["PodSandboxStatus"] = fail
    calls.refused["StartContainer", "c2"] = RpcError(grpc.StatusCode.UNKNOWN, "no such program")
    with pytest.raises(ContainerStartError, match="no such program"):
        await runtime.start_container(sandbox, MAIN)


async def test_old_attempts_are_garbage(tmp_path, runtime, calls):
    """The newest attempt and the one before it stay; one that cannot be removed fails no start."""
    await runtime.load()
    sandbox = await runtime.run_pod_sandbox(pod(tmp_path))
    for _ in range(4):
        container = await runtime.start_container(sandbox, MAIN)
        calls.end(calls.containers[container.id][1], 0)
    calls.refused["RemoveContainer", "c2"] = unavailable()
    with pytest.raises(RpcError, match="drawn"):
        await runtime._collect_once()
    calls.refused.clear()
    await runtime._collect_once()
    assert [*calls.containers] == [each.id for each in sandbox.containers] == ["c4", "c5"]
    assert sorted((tmp_path / "requests" / "containers").iterdir()) == [
        tmp_path / "requests" / "containers" / each for each in ("c4", "c5")
    ]


async def test_nothing_is_kept_of_pods_that_are_gone(tmp_path, runtime, calls):
    """Neither of one that was removed, nor of one that the runtime refused."""
    await runtime.load()
    await runtime.run_pod_sandbox(pod(tmp_path))
    await runtime.remove_pod_sandbox("a")

    async def fail(_request):
        raise unavailable()

    calls.before["RunPodSandbox"] = fail
    with pytest.raises(ContainerRuntimeError, match="drawn"):
        await runtime.run_pod_sandbox(pod(tmp_path, "b"))
    assert runtime._cache._pods == {}


# -- drawn


class Actor:
    """A kubelet that does to one pod what is drawn, and what others do to it."""

    def __init__(self, uid, root, runtime, calls, drawn):
        self.uid, self.root, self.runtime, self.calls, self.drawn = uid, root, runtime, calls, drawn
        self.started = []

    async def act(self, times):
        for _ in range(times):
            await asyncio.sleep(self.drawn.choice((0, 0.3, 1.1)))
            step = self.drawn.choice((self.run, self.start, self.start, self.stop, self.end, self.lose))
            with contextlib.suppress(ContainerRuntimeError, ImageError):
                await step()

    async def run(self):
        sandbox = self.runtime.sandbox(self.uid)
        if sandbox is None:
            await self.runtime.run_pod_sandbox(pod(self.root, self.uid))
        elif self.drawn.random() < 0.5:
            await self.runtime.stop_pod_sandbox(sandbox)
        else:
            await self.runtime.remove_pod_sandbox(self.uid)

    async def start(self):
        sandbox = self.runtime.sandbox(self.uid)
        if sandbox is None:
            sandbox = await self.runtime.run_pod_sandbox(pod(self.root, self.uid))
        name = self.drawn.choice(("main", "other"))
        self.started.append(await self.runtime.start_container(sandbox, ContainerConfig(name, "busybox")))

    async def stop(self):
        sandbox = self.runtime.sandbox(self.uid)
        for container in sandbox.containers if sandbox is not None else ():
            if container.ends_at is None:
                self.runtime.stop_container(sandbox, container, 1)

    async def end(self):
        """A program ends."""
        of_pod = [one for _, one in self.calls.containers.values() if one.labels[POD_UID] == self.uid]
        for status in of_pod[:1]:
            self.calls.end(status, 3)

    async def lose(self):
        """Somebody else removes a sandbox."""
        ids = [each.id for each in self.calls.sandboxes.values() if each.metadata.uid == self.uid]
        if ids and self.drawn.random() < 0.3:
            self.calls.RemovePodSandbox(messages.RemovePodSandboxRequest(pod_sandbox_id=ids[0]))


def in_runtime(calls):
    """The records that a kubelet has once all is quiet: each pod's newest sandbox, and all that ran."""
    found = {}
    for each in sorted(calls.sandboxes.values(), key=lambda each: each.created_at):
        found[each.metadata.uid] = (each.id, each.state == messages.PodSandboxState.SANDBOX_READY, {})
    for _, each in calls.containers.values():
        if each.state != messages.ContainerState.CONTAINER_CREATED:
            ended = each.state == messages.ContainerState.CONTAINER_EXITED
            found[each.labels[POD_UID]][2][each.id] = each.exit_code if ended else None
    return found


def in_cache(runtime):
    return {
        sandbox.pod_uid: (
            sandbox.id, sandbox.ready,
            {each.id: each.exit_code if each.ends_at is not None else None for each in sandbox.containers},
        )
        for sandbox in runtime.sandboxes()
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
async def test_a_kubelet_knows_what_its_runtime_has(tmp_path, clock, seed):
    """Once calls that are late, fail or lose their answers have an end, the records are those of the runtime,
    each container that was started still has its record, and nothing is left of what is gone."""
    calls = DrawnCalls(clock)
    runtime = runtime_at(tmp_path, clock, calls)
    await runtime.load()
    calls.drawn = random.Random(seed)
    actors = [Actor(uid, tmp_path, runtime, calls, random.Random(f"{seed} {uid}")) for uid in "abc"]
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runtime.run())
        async with asyncio.TaskGroup() as acting:
            for actor in actors:
                acting.create_task(actor.act(25))
        calls.is_quiet()
        await clock.sleep(200)
        wanted = in_runtime(calls)
        assert in_cache(runtime) == wanted
        running.cancel()
    assert {*runtime._cache._pods} == {*wanted}
    files = {path.name for path in runtime._requests.kept()}
    assert files <= {*calls.sandboxes, *calls.containers}
    known = {each.id: each for sandbox in runtime.sandboxes() for each in sandbox.containers}
    for container in [one for actor in actors for one in actor.started if one.id in calls.containers]:
        assert known[container.id] is container
        assert container.id in files
