"""CRI's services over a runtime in memory, called as a kubelet calls them; in virtual time."""

import asyncio
from pathlib import Path
from unittest.mock import AsyncMock

import grpc
import pytest
from container_runtime_in_memory import DIGEST, RuntimeInMemory, streaming

from kubeskew.kubelet.containers.cri import conversion
from kubeskew.kubelet.containers.cri.image_server import ImageServer
from kubeskew.kubelet.containers.cri.log_files import log_line
from kubeskew.kubelet.containers.cri.records import Records
from kubeskew.kubelet.containers.cri.runtime_server import RuntimeServer, Surroundings
from kubeskew.kubelet.containers.runtime_service import ContainerResources, LogLine, Mount
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.containers.simulated.runtime import SimulatedImages, SimulatedRuntime
from kubeskew.kubelet.cri_service import CRIService
from kubeskew.kubelet.device_managers import (
    CDIDevice,
    ContainerDevices,
    DeviceNode,
    HostMount,
    InjectionError,
)
from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.protocols import cri
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages
from kubeskew.kubelet.runtimes import NodeRuntime
from kubeskew.kubelet.server.streaming import StreamingServer

pytestmark = pytest.mark.looptime

UID = "f0be0bd8-a679-4044-b966-25baadb0497f"
GPU = "gpu.example.com/claim=1"
STATES = messages.ContainerState
PATHS = {"/var/lib/kubelet": "/nodes/1/kubelet", "/var/log": "/nodes/1/log"}


def here(path):
    for theirs, ours in PATHS.items():
        path = path.replace(theirs, ours)
    return Path(path)


def inject(names):
    """One device is known."""
    if any(name != GPU for name in names):
        raise InjectionError(f"CDI device injection failed: unresolvable CDI devices {', '.join(names)}")
    if not names:
        return ContainerDevices()
    return ContainerDevices(
        env={"GPU": "1"},
        nodes=[DeviceNode("/dev/gpu", "/dev/null", "rw")],
        mounts=[HostMount("/gpu", "/opt/gpu", read_only=True)],
        cdi=[CDIDevice(GPU, {"GPU": "1"})],
    )


async def acted(sandbox, container):
    return {"kind": f"{sandbox.metadata.name}/{container}"}


class Node:
    """A runtime, its service, and a kubelet's calls."""

    def __init__(self, clock, entropy, directory, runtime=None):
        self.clock, self.entropy, self.directory = clock, entropy, directory
        self.runtime = runtime or RuntimeInMemory(clock)
        self.server = RuntimeServer(
            *(self.runtime, self.runtime, Records(directory, StateFiles()), streaming()),
            *(Surroundings(inject, here, acted), clock, entropy),
        )

    async def sandbox(self, name="web", attempt=0):
        metadata = messages.PodSandboxMetadata(name=name, uid=UID, namespace="default", attempt=attempt)
        config = messages.PodSandboxConfig(
            metadata=metadata, log_directory=f"/var/log/pods/{name}", labels={"app": name}
        )
        answer = await self.server.run_pod_sandbox(messages.RunPodSandboxRequest(config=config))
        return answer.pod_sandbox_id

    def container(self, name="main", attempt=0, image="busybox", **more):
        return messages.ContainerConfig(
            metadata=messages.ContainerMetadata(name=name, attempt=attempt),
            image=messages.ImageSpec(
                image="docker.io/library/busybox:latest" if image == "busybox" else image
            ),
            log_path=f"{name}/{attempt}.log",
            labels={"io.kubernetes.container.name": name},
            **more,
        )

    async def created(self, sandbox, config):
        request = messages.CreateContainerRequest(pod_sandbox_id=sandbox, config=config)
        return (await self.server.create_container(request)).container_id

    async def started(self, sandbox, config=None):
        identifier = await self.created(sandbox, config or self.container())
        await self.server.start_container(messages.StartContainerRequest(container_id=identifier))
        return identifier

    async def status(self, identifier):
        request = messages.ContainerStatusRequest(container_id=identifier)
        return (await self.server.container_status(request)).status

    def run(self, name="main"):
        """The runtime's own container."""
        return self.runtime.sandbox(UID).latest(name)


@pytest.fixture
def node(clock, entropy, tmp_path):
    return Node(clock, entropy, tmp_path)


@pytest.fixture(autouse=True)
def no_log_files(monkeypatch):
    """Output stays in memory."""
    monkeypatch.setattr("kubeskew.kubelet.containers.cri.log_files.LogFiles.follow", lambda *_arguments: None)


async def refusal(call):
    with pytest.raises(RpcError) as caught:
        await call
    return caught.value.code, caught.value.description


def test_every_verb_of_the_protocol_is_served(node):
    """A kubelet of any minor finds all verbs, at the names of CRI v1."""
    served = []

    class Server:
        def add(self, service, name, _answer):
            served.append((service, name))

        def add_stream(self, service, name, _answers):
            served.append((service, name))

    node.server.serve(Server())
    ImageServer(node.runtime, node.clock, "/").serve(Server())
    wanted = [(cri.RUNTIME, verb) for verb in (*cri.RUNTIME_METHODS, "GetContainerEvents")]
    assert sorted(served) == sorted([*wanted, *((cri.IMAGES, verb) for verb in cri.IMAGE_METHODS)])


async def test_the_runtime_is_ready(node):
    """Version, readiness and cgroup driver are what a kubelet starts with."""
    version = await node.server.version(messages.VersionRequest())
    assert (version.runtime_name, version.runtime_api_version) == ("containerd", "v1")
    status = await node.server.status(messages.StatusRequest())
    assert {each.type: each.status for each in status.status.conditions} == {
        "RuntimeReady": True,
        "NetworkReady": True,
    }
    config = await node.server.runtime_config(messages.RuntimeConfigRequest())
    assert config.linux.cgroup_driver == messages.CgroupDriver.CGROUPFS


async def test_a_container_is_created_started_and_ends(node):
    """Its status goes from created over running to exited, with the exit code and reason."""
    sandbox = await node.sandbox()
    identifier = await node.created(sandbox, node.container())
    status = await node.status(identifier)
    assert (status.state, status.log_path) == (STATES.CONTAINER_CREATED, "/var/log/pods/web/main/0.log")
    assert status.image_ref == f"docker.io/library/busybox@sha256:{DIGEST}"
    await node.server.start_container(messages.StartContainerRequest(container_id=identifier))
    assert (await node.status(identifier)).state == STATES.CONTAINER_RUNNING
    node.runtime.end(node.run(), code=3)
    status = await node.status(identifier)
    assert (status.state, status.exit_code, status.reason) == (STATES.CONTAINER_EXITED, 3, "Error")
    assert status.finished_at >= status.started_at > 0


async def test_a_configuration_reaches_the_runtime(node):
    """Paths are those of this machine, CDI devices bring what specs say, pods say how they are acted."""
    mount = messages.Mount(container_path="/data", host_path="/var/lib/kubelet/pods/1", readonly=True)
    config = node.container(
        command=["sleep"],
        args=["infinity"],
        envs=[messages.KeyValue(key="A", value=b"b"), messages.KeyValue(key="RAW", value=b"\xff")],
        mounts=[mount],
        CDI_devices=[messages.CDIDevice(name=GPU)],
        linux=messages.LinuxContainerConfig(
            resources=messages.LinuxContainerResources(cpu_shares=102, memory_limit_in_bytes=64 << 20),
            security_context=messages.LinuxContainerSecurityContext(
                run_as_user=messages.Int64Value(value=0), no_new_privs=True, masked_paths=["/proc/kcore"]
            ),
        ),
    )
    identifier = await node.started(await node.sandbox(), config)
    found = node.runtime.configs[node.run().id]
    assert found.id == identifier
    assert ([*found.command], [*found.args]) == (["sleep"], ["infinity"])
    assert found.env == {"A": "b", "RAW": "\ufffd", "GPU": "1"}
    assert found.mounts[0] == Mount("/data", Path("/nodes/1/kubelet/pods/1"), read_only=True)
    assert found.mounts[1] == Mount("/gpu", Path("/opt/gpu"), read_only=True)
    assert [(each.container_path, each.permissions) for each in found.devices] == [("/dev/gpu", "rw")]
    assert [device.name for device in found.cdi_devices] == [GPU]
    assert found.annotations["kind"] == "web/main"
    assert found.resources == ContainerResources(cpu_shares=102, memory_bytes=64 << 20)
    assert (found.security.run_as_user, found.security.run_as_group) == (0, None)
    assert found.security.no_new_privileges
    assert not found.security.unmasked_proc


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"host_network": False, "host_pid": False, "host_users": True}),
        ({"network": messages.NODE, "pid": messages.NODE}, {"host_network": True, "host_pid": True}),
        ({"pid": messages.POD}, {"shares_pid": True}),
        ({"pid": messages.CONTAINER, "ipc": messages.NODE}, {"shares_pid": False, "host_ipc": True}),
        ({"userns_options": messages.UserNamespace(mode=messages.POD)}, {"host_users": False}),
    ],
)
def test_namespaces_of_a_sandbox(given, expected):
    """The machine's, the pod's and the container's namespaces are told apart."""
    context = messages.LinuxSandboxSecurityContext(namespace_options=messages.NamespaceOption(**given))
    request = messages.PodSandboxConfig(linux=messages.LinuxPodSandboxConfig(security_context=context))
    config = conversion.sandbox_config(request, Path)
    assert {name: getattr(config, name) for name in expected} == expected


async def test_refusals_have_the_codes_that_kubelets_expect(node):
    """A missing object is NotFound, a wrong state or a runtime's refusal is Unknown."""
    server = node.server
    code, text = await refusal(node.status("none"))
    assert (code, text) == (
        grpc.StatusCode.NOT_FOUND,
        'an error occurred when try to find container "none": not found',
    )
    code, text = await refusal(
        server.pod_sandbox_status(messages.PodSandboxStatusRequest(pod_sandbox_id="none"))
    )
    assert (code, text) == (
        grpc.StatusCode.NOT_FOUND,
        'an error occurred when try to find sandbox "none": not found',
    )
    assert await refusal(node.sandbox("refused")) == (
        grpc.StatusCode.UNKNOWN,
        "failed to setup network for sandbox",
    )
    sandbox = await node.sandbox()
    code, text = await refusal(node.created(sandbox, node.container(image="nginx")))
    assert (code, text) == (
        grpc.StatusCode.NOT_FOUND,
        'failed to create containerd container: image "nginx": not found',
    )
    unknown = node.container(CDI_devices=[messages.CDIDevice(name="a/b=c")])
    assert await refusal(node.created(sandbox, unknown)) == (
        grpc.StatusCode.UNKNOWN,
        "CDI device injection failed: unresolvable CDI devices a/b=c",
    )
    code, text = await refusal(node.started(sandbox, node.container(command=["missing"])))
    assert (code, text) == (
        grpc.StatusCode.UNKNOWN,
        'exec: "missing": not found',
    )
    identifier = await node.started(sandbox)
    code, text = await refusal(
        server.start_container(messages.StartContainerRequest(container_id=identifier))
    )
    assert text == (
        f'failed to set starting state for container "{identifier}": container is in CONTAINER_RUNNING state'
    )
    node.runtime.end(node.run())
    code, text = await refusal(
        server.exec_sync(messages.ExecSyncRequest(container_id=identifier, cmd=["true"]))
    )
    assert (code, text) == (grpc.StatusCode.UNKNOWN, "container is in CONTAINER_EXITED state")


async def test_what_is_gone_counts_as_stopped_and_removed(node):
    """Stops and removals of unknown ids succeed, so that a kubelet need not remember what it has done."""
    server = node.server
    await server.stop_container(messages.StopContainerRequest(container_id="none"))
    await server.remove_container(messages.RemoveContainerRequest(container_id="none"))
    await server.stop_pod_sandbox(messages.StopPodSandboxRequest(pod_sandbox_id="none"))
    await server.remove_pod_sandbox(messages.RemovePodSandboxRequest(pod_sandbox_id="none"))


async def test_a_removed_container_stays_removed(node, clock, entropy):
    """A server that starts again does not adopt a container that the runtime keeps, if it was removed."""
    identifier = await node.started(await node.sandbox())
    await node.server.remove_container(messages.RemoveContainerRequest(container_id=identifier))
    assert any(sandbox.containers for sandbox in node.runtime.sandboxes())
    again = Node(clock, entropy, node.directory, node.runtime)
    await again.server.load()
    assert not (await again.server.list_containers(messages.ListContainersRequest())).containers


async def test_nothing_is_left_of_a_removed_sandbox(node):
    """With the sandbox of a removed container its last trace goes: a node with many pods keeps none."""
    sandbox = await node.sandbox()
    identifier = await node.started(sandbox)
    await node.server.remove_container(messages.RemoveContainerRequest(container_id=identifier))
    await node.server.remove_pod_sandbox(messages.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
    assert [path for path in node.directory.rglob("*") if path.is_file()] == []


async def test_a_stop_waits_for_the_end(node):
    """StopContainer answers once the container has ended, also where its end was known beforehand."""
    identifier = await node.started(await node.sandbox())
    before = node.clock.now()
    await node.server.stop_container(messages.StopContainerRequest(container_id=identifier, timeout=30))
    assert (node.clock.now() - before).total_seconds() == 2.0
    assert (await node.status(identifier)).state == STATES.CONTAINER_EXITED


async def test_containers_of_a_pods_earlier_sandbox_keep_their_status(node):
    """A pod's next sandbox takes the place of the one before in the runtime, not in the lists."""
    first = await node.sandbox()
    identifier = await node.started(first)
    await node.server.stop_pod_sandbox(messages.StopPodSandboxRequest(pod_sandbox_id=first))
    second = await node.sandbox(attempt=1)
    status = await node.status(identifier)
    assert (status.state, status.exit_code) == (STATES.CONTAINER_EXITED, 137)
    listed = await node.server.list_pod_sandbox(messages.ListPodSandboxRequest())
    ready = messages.PodSandboxState.SANDBOX_READY
    assert {each.id: each.state == ready for each in listed.items} == {first: False, second: True}
    await node.server.remove_pod_sandbox(messages.RemovePodSandboxRequest(pod_sandbox_id=first))
    listed = await node.server.list_pod_sandbox(messages.ListPodSandboxRequest())
    assert [each.id for each in listed.items] == [second]
    assert (await refusal(node.status(identifier)))[0] is grpc.StatusCode.NOT_FOUND


async def test_lists_are_filtered(node):
    """By id or its beginning, by state, by sandbox and by labels."""
    sandbox = await node.sandbox()
    one, other = await node.started(sandbox), await node.started(sandbox, node.container("other"))
    node.runtime.end(node.run("other"))

    async def listed(**given):
        request = messages.ListContainersRequest(filter=messages.ContainerFilter(**given))
        return [each.id for each in (await node.server.list_containers(request)).containers]

    running = messages.ContainerStateValue(state=STATES.CONTAINER_RUNNING)
    assert await listed() == [one, other]
    assert await listed(id=other[:12]) == [other]
    assert await listed(state=running) == [one]
    assert await listed(pod_sandbox_id=sandbox) == [one, other]
    assert await listed(label_selector={"io.kubernetes.container.name": "other"}) == [other]
    assert await listed(label_selector={"io.kubernetes.container.name": "none"}) == []


async def test_a_server_that_starts_again_answers_as_before(node, clock, entropy):
    """Requests, statuses and ids are in files; a file that a crash left empty is dropped."""
    sandbox = await node.sandbox()
    running, created = (
        await node.started(sandbox),
        await node.created(sandbox, node.container("created")),
    )
    ended = await node.started(sandbox, node.container("ended"))
    node.runtime.end(node.run("ended"), code=1)
    before = [await node.status(identifier) for identifier in (running, created, ended)]
    empty = node.directory / "sandboxes" / "empty.json"
    empty.touch()

    again = Node(clock, entropy, node.directory, node.runtime)
    await again.server.load()
    assert [await again.status(identifier) for identifier in (running, created, ended)] == before
    listed = await again.server.list_pod_sandbox(messages.ListPodSandboxRequest())
    assert [(each.id, dict(each.labels)) for each in listed.items] == [(sandbox, {"app": "web"})]
    assert not empty.exists()


async def test_containers_that_the_runtime_has_lost_are_unknown(node, clock, entropy):
    """A kubelet takes an unknown container for one that it has to stop."""
    identifier = await node.started(await node.sandbox())
    again = Node(clock, entropy, node.directory, RuntimeInMemory(clock))
    await again.server.load()
    assert (await again.status(identifier)).state == STATES.CONTAINER_UNKNOWN


async def test_containers_of_an_emulated_kubelet_are_adopted(node):
    """They have ids, labels and annotations by which a real kubelet takes them for its own."""
    now = node.clock.now()
    sandbox = Sandbox(UID, "default", "web", "sandbox", "10.1.1.1", now)
    container = Container("id", "main", 1, "busybox", now, annotations={"io.kubernetes.container.hash": "1"})
    sandbox.containers.append(container)
    node.runtime.by_uid[UID] = sandbox
    await node.server.load()
    status = await node.status("id")
    assert (status.state, status.metadata.attempt) == (STATES.CONTAINER_RUNNING, 1)
    assert status.log_path == f"/var/log/pods/default_web_{UID}/main/1.log"
    assert dict(status.annotations) == {
        "io.kubernetes.container.hash": "1",
        "io.kubernetes.container.restartCount": "1",
    }
    assert status.labels["io.kubernetes.pod.uid"] == UID
    listed = await node.server.list_pod_sandbox(messages.ListPodSandboxRequest())
    assert [each.id for each in listed.items] == ["sandbox"]


async def test_commands(node):
    """ExecSync answers output and exit code; what takes too long is DeadlineExceeded."""
    identifier = await node.started(await node.sandbox())

    async def done(*command, timeout=1):
        request = messages.ExecSyncRequest(container_id=identifier, cmd=command, timeout=timeout)
        return await node.server.exec_sync(request)

    answer = await done("false", "now")
    assert (answer.stdout, answer.stderr, answer.exit_code) == (b"false now", b"err", 3)
    assert (await refusal(done("sleep", "5")))[0] is grpc.StatusCode.DEADLINE_EXCEEDED
    code, text = await refusal(done("missing"))
    assert (code, text) == (
        grpc.StatusCode.UNKNOWN,
        'exec: "missing": executable file not found in $PATH',
    )
    url = await node.server.exec(messages.ExecRequest(container_id=identifier, cmd=["a", "b"]))
    assert url.url == "exec/main/a b"
    url = await node.server.attach(messages.AttachRequest(container_id=identifier))
    assert url.url == "attach/main"


async def test_a_log_goes_on_in_a_new_file(node):
    """A running container's log is reopened by the runtime that writes it; one that has ended has none."""
    identifier = await node.started(await node.sandbox())
    request = messages.ReopenContainerLogRequest(container_id=identifier)
    await node.server.reopen_container_log(request)
    assert node.runtime.reopened == [node.run().id]
    await node.server.stop_container(messages.StopContainerRequest(container_id=identifier))
    refused = await refusal(node.server.reopen_container_log(request))
    assert refused == (grpc.StatusCode.UNKNOWN, "container is not running")


async def test_resources_are_changed(node):
    """The runtime gets the new limits, and the status shows them."""
    identifier = await node.started(await node.sandbox())
    linux = messages.LinuxContainerResources(cpu_quota=20000, cpu_period=100000)
    request = messages.UpdateContainerResourcesRequest(container_id=identifier, linux=linux)
    await node.server.update_container_resources(request)
    assert node.runtime.updates == [ContainerResources(cpu_quota=20000, cpu_period=100000)]
    assert (await node.status(identifier)).resources.linux.cpu_quota == 20000


async def test_use_is_that_of_running_containers(node):
    """Lists have what runs; a container that has ended uses nothing."""
    sandbox = await node.sandbox()
    one, other = await node.started(sandbox), await node.started(sandbox, node.container("other"))
    node.runtime.end(node.run("other"))
    listed = await node.server.list_container_stats(messages.ListContainerStatsRequest())
    assert [each.attributes.id for each in listed.stats] == [one]
    used = listed.stats[0]
    assert used.cpu.usage_core_nano_seconds.value == 1_500_000_000
    assert (used.memory.working_set_bytes.value, used.writable_layer.used_bytes.value) == (4096, 512)
    answer = await node.server.container_stats(messages.ContainerStatsRequest(container_id=other))
    assert answer.stats.memory.working_set_bytes.value == 0
    pods = await node.server.list_pod_sandbox_stats(messages.ListPodSandboxStatsRequest())
    assert [each.linux.memory.working_set_bytes.value for each in pods.stats] == [4096]


async def test_events_of_containers(node):
    """Each has the pod's sandbox and containers with it, as a kubelet without polling needs them."""
    found = []

    async def listen():
        async for event in node.server.container_events(messages.GetEventsRequest()):
            found.append(event)  # noqa: PERF401 - it is cancelled in the middle

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    sandbox = await node.sandbox()
    identifier = await node.started(sandbox)
    node.runtime.end(node.run())
    await asyncio.sleep(0)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    kinds = messages.ContainerEventType
    assert [event.container_event_type for event in found] == [
        *(kinds.CONTAINER_CREATED_EVENT, kinds.CONTAINER_STARTED_EVENT, kinds.CONTAINER_STOPPED_EVENT),
    ]
    assert {event.container_id for event in found} == {identifier}
    assert found[-1].pod_sandbox_status.id == sandbox
    assert [each.state for each in found[-1].containers_statuses] == [STATES.CONTAINER_EXITED]


async def test_images(node):
    """An image that is not there has no status; one that cannot be had is NotFound."""
    images = ImageServer(node.runtime, node.clock, "/nodes/1")

    async def status(name):
        spec = messages.ImageSpec(image=name)
        return (await images.image_status(messages.ImageStatusRequest(image=spec))).image

    assert (await status("docker.io/library/nginx:latest")).id == ""
    pulled = messages.PullImageRequest(image=messages.ImageSpec(image="docker.io/library/nginx:latest"))
    assert (await images.pull_image(pulled)).image_ref == f"sha256:{DIGEST}"
    found = await status("docker.io/library/nginx:latest")
    assert ([*found.repo_tags], found.uid.value) == (["docker.io/library/nginx:latest"], 65534)
    listed = await images.list_images(messages.ListImagesRequest())
    assert len(listed.images) == 2
    missing = messages.PullImageRequest(image=messages.ImageSpec(image="missing:1"))
    code, text = await refusal(images.pull_image(missing))
    assert (code, text) == (grpc.StatusCode.NOT_FOUND, "failed to resolve image: missing:1: not found")
    use = await images.image_fs_info(messages.ImageFsInfoRequest())
    assert use.image_filesystems[0].fs_id.mountpoint == "/nodes/1"


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"hello\n", b"2026-01-01T00:00:00.000000000Z stdout F hello\n"),
        (b"part", b"2026-01-01T00:00:00.000000000Z stdout P part\n"),
        (b"\n", b"2026-01-01T00:00:00.000000000Z stdout F \n"),
    ],
)
def test_lines_of_log_files(clock, data, line):
    """Lines are in the format that kubelets read; a part of a line is marked as such."""
    assert log_line(LogLine(clock.now(), "stdout", data)) == line


async def test_a_service_that_starts_again_goes_on_writing_logs(clock, entropy, tmp_path, monkeypatch):
    """A container that runs over a restart of the service writes lines into the same file."""
    monkeypatch.undo()  # log files are written here
    monkeypatch.setattr("kubeskew.kubelet.cri_service.new_server", Served)
    monkeypatch.setattr(StreamingServer, "start", AsyncMock())
    log = tmp_path / "log" / "0.log"

    async def serve():
        runtime = SimulatedRuntime(tmp_path / "runtime", "n", clock, entropy)
        arguments = (tmp_path, tmp_path / "cdi", StateFiles(), clock, entropy)
        service = CRIService(NodeRuntime(runtime, SimulatedImages()), *arguments)
        await service.start(tmp_path / "cri.sock")
        return service

    service = await serve()
    metadata = messages.PodSandboxMetadata(name="web", uid=UID, namespace="default")
    config = messages.PodSandboxConfig(metadata=metadata, log_directory=str(log.parent))
    made = await service._runtime.run_pod_sandbox(messages.RunPodSandboxRequest(config=config))
    container = messages.ContainerConfig(
        metadata=messages.ContainerMetadata(name="c"),
        image=messages.ImageSpec(image="busybox"),
        command=["sh", "-c", "while true; do echo x; sleep 1; done"],
        log_path=log.name,
    )
    request = messages.CreateContainerRequest(
        pod_sandbox_id=made.pod_sandbox_id, config=container, sandbox_config=config
    )
    created = await service._runtime.create_container(request)
    started = messages.StartContainerRequest(container_id=created.container_id)
    await service._runtime.start_container(started)
    await asyncio.sleep(3)
    await service.stop()
    before = len(log.read_text().splitlines())
    again = await serve()
    await asyncio.sleep(3)
    await again.stop()
    assert before >= 3
    assert len(log.read_text().splitlines()) >= before + 2


class Served:
    """A server that nobody calls."""

    def add(self, *_arguments):
        pass

    add_stream = listen = add

    async def start(self):
        pass

    async def stop(self, _grace):
        pass
