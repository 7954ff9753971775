"""Faults of a container runtime, before an emulated kubelet's and before the service of a real one."""

import asyncio
import contextlib
from pathlib import Path

import grpc
import pytest
from container_runtime_in_memory import RuntimeInMemory, streaming
from faulty_clients import Notes

from kubeskew.apimachinery.faults.decisions import Progress
from kubeskew.apimachinery.faults.injector import Injector
from kubeskew.apimachinery.faults.syntax import read
from kubeskew.kubelet.containers.cri.records import Records
from kubeskew.kubelet.containers.cri.runtime_server import RuntimeServer, Surroundings
from kubeskew.kubelet.containers.runtime_faults import (
    FaultyImages,
    FaultyRuntime,
    RuntimeFaults,
    RuntimeHealth,
)
from kubeskew.kubelet.containers.runtime_service import (
    ContainerConfig,
    ContainerRuntimeError,
    ContainerStartError,
    ImageError,
    PodSandboxConfig,
)
from kubeskew.kubelet.device_managers import ContainerDevices
from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.protocols import cri
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

pytestmark = pytest.mark.looptime


def faults(clock, *bodies):
    notes = Notes()
    injector = Injector("kubelet/n", clock, notes, notes.crash, notes.record)
    plan = [
        read({"component": "kubelet/n", "id": f"f{number}", **body}) for number, body in enumerate(bodies)
    ]
    injector.apply([(fault, Progress()) for fault in plan])
    return RuntimeFaults(injector)


def sandbox_config(name="web"):
    return PodSandboxConfig("u", "default", name, name, Path("/logs"))


async def test_a_container_that_is_refused_was_created_or_not(clock):
    """The two calls of a start fail apart, with the fault's text; each once, for the pod that is named."""
    runtime = FaultyRuntime(
        RuntimeInMemory(clock),
        faults(
            clock,
            {"verb": "CreateContainer", "name": "web", "nth": 1, "answer": 500, "message": "no room"},
            {"verb": "StartContainer", "name": "web", "nth": 1, "answer": 500, "message": "no program"},
        ),
    )
    other = await runtime.run_pod_sandbox(PodSandboxConfig("v", "default", "other", "other", Path("/logs")))
    await runtime.start_container(other, ContainerConfig("c", "busybox"))
    sandbox = await runtime.run_pod_sandbox(sandbox_config())
    with pytest.raises(ContainerRuntimeError, match=r"^no room$") as refused:
        await runtime.start_container(sandbox, ContainerConfig("c", "busybox"))
    assert not isinstance(refused.value, ContainerStartError)
    with pytest.raises(ContainerStartError, match=r"^no program$"):
        await runtime.start_container(sandbox, ContainerConfig("c", "busybox"))
    assert (await runtime.start_container(sandbox, ContainerConfig("c", "busybox"))).name == "c"


@pytest.mark.parametrize(
    ("body", "seconds", "text"),
    [
        ({"drop": "request"}, 0, r"rpc error: code = Unavailable desc = error reading from server: "),
        ({"answer": 503, "message": "gone"}, 0, r"^rpc error: code = Unavailable desc = gone$"),
        ({"delay": "1h"}, 240, r"^rpc error: code = DeadlineExceeded desc = context deadline exceeded$"),
    ],
)
async def test_a_sandbox_is_not_made(clock, body, seconds, text):
    """The error is a gRPC client's, at once or after the kubelet's patience, and the runtime has nothing."""
    runtime = FaultyRuntime(RuntimeInMemory(clock), faults(clock, {"verb": "RunPodSandbox", **body}))
    began = clock.monotonic()
    with pytest.raises(ContainerRuntimeError, match=text):
        await runtime.run_pod_sandbox(sandbox_config())
    assert clock.monotonic() - began == pytest.approx(seconds, abs=1)
    assert runtime.sandboxes() == []


async def test_a_sandbox_is_not_removed(clock):
    """A removal that is refused leaves the sandbox; that of a pod without one is no call."""
    body = {"verb": "RemovePodSandbox", "name": "web", "nth": 1, "answer": 500, "message": "busy"}
    runtime = FaultyRuntime(RuntimeInMemory(clock), faults(clock, body))
    await runtime.remove_pod_sandbox("u")
    await runtime.run_pod_sandbox(sandbox_config())
    with pytest.raises(ContainerRuntimeError, match=r"busy$"):
        await runtime.remove_pod_sandbox("u")
    assert runtime.sandbox("u") is not None
    await runtime.remove_pod_sandbox("u")
    assert runtime.sandbox("u") is None


@pytest.mark.parametrize(("limit", "passed"), [(5, 125), (0, 3600)])
async def test_a_command_is_late(clock, limit, passed):
    """The kubelet gives up two minutes after the command's own time, and never if it has none."""
    runtime = FaultyRuntime(RuntimeInMemory(clock), faults(clock, {"verb": "ExecSync", "delay": "1h"}))
    sandbox = await runtime.run_pod_sandbox(sandbox_config())
    container = await runtime.start_container(sandbox, ContainerConfig("c", "busybox"))
    began = clock.monotonic()
    with contextlib.suppress(ContainerRuntimeError):
        await runtime.exec_sync(sandbox, container, ["true"], limit)
    assert clock.monotonic() - began == pytest.approx(passed, abs=1)


async def test_an_image_cannot_be_pulled(clock):
    """A pull is selected by the image's name, and its error is one of images."""
    found = faults(clock, {"verb": "PullImage", "name": "busybox", "answer": 404, "message": "no such image"})
    images = FaultyImages(RuntimeInMemory(clock), found)
    with pytest.raises(ImageError, match=r"^rpc error: code = NotFound desc = no such image$") as refused:
        await images.pull_image("busybox")
    assert refused.value.reason == "ErrImagePull"


async def test_a_service_refuses_a_real_kubelets_call(clock, entropy, tmp_path):
    """Each method meets the faults of its pod, whatever id its request has; `runtime` means all methods."""

    async def acted(_sandbox, _container):
        return {}

    runtime = RuntimeInMemory(clock)
    server = RuntimeServer(
        *(runtime, runtime, Records(tmp_path, StateFiles()), streaming()),
        *(Surroundings(lambda _names: ContainerDevices(), acted=acted), clock, entropy),
    )
    served = {}

    class Server:
        def add(self, _service, name, answer):
            served[name] = answer

        def add_stream(self, _service, _name, _answers):
            pass

    server.serve(
        Server(),
        faults(
            clock,
            {"verb": "CreateContainer", "namespace": "default", "name": "web", "answer": 500, "message": "x"},
            {"resource": "runtime", "verb": "Status", "drop": "request"},
        ),
    )

    async def call(verb, **request):
        method = cri.RUNTIME_METHODS[verb]
        return method.response.FromString(await served[verb](method.request(**request).SerializeToString()))

    metadata = messages.PodSandboxMetadata(name="web", uid="u", namespace="default")
    config = messages.PodSandboxConfig(metadata=metadata, log_directory="/logs")
    made = await call("RunPodSandbox", config=config)
    with pytest.raises(RpcError) as refused:
        await call("CreateContainer", pod_sandbox_id=made.pod_sandbox_id)
    assert (refused.value.code, refused.value.description) == (grpc.StatusCode.UNKNOWN, "x")
    with pytest.raises(RpcError, match="Unavailable"):
        await call("Status")
    assert len((await call("ListPodSandbox")).items) == 1


async def test_a_runtime_that_is_silent_makes_the_node_not_ready(clock):
    """For half a minute the kubelet believes that the runtime is there; it is once it answers again."""
    found = faults(clock, {"resource": "runtime", "drop": "request"})
    health = RuntimeHealth(found, clock)
    assert health.look() == ""
    await asyncio.sleep(29)
    assert health.look() == ""
    await asyncio.sleep(2)
    assert health.look() == "container runtime is down"
    found._injector.apply([])
    assert health.look() == ""
    assert RuntimeHealth(None, clock).look() == ""
