"""The client of CRI v1 with a runtime whose calls are late or fail."""

import pytest
from drawn_calls import DrawnCalls

from kubeskew.kubelet.containers.remote.runtime import RemotePlace, RemoteRuntime
from kubeskew.kubelet.containers.runtime_service import ContainerConfig, PodSandboxConfig

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
