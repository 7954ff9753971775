"""The client of CRI v1 with a runtime whose calls are late or fail."""

import asyncio

import grpc
import pytest
from drawn_calls import DrawnCalls, unavailable

from kubeskew.kubelet.containers.remote.runtime import RemotePlace, RemoteRuntime
from kubeskew.kubelet.containers.runtime_service import (
    ContainerConfig,
    ContainerRuntimeError,
    ContainerStartError,
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
    assert container.log_path == str(tmp_path / "logs" / "default_a_a" / "main" / "0.log")
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
