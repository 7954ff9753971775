"""The client of CRI v1: what it asks for, what it makes of statuses, and what it does without its runtime."""

from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
from remote_node import RemoteNode, ServedRuntime
from until import until

from kubeskew.kubelet.containers.cri.runtime_server import RuntimeServer
from kubeskew.kubelet.containers.remote import log_rotation
from kubeskew.kubelet.containers.remote.calls import RuntimeCalls, endpoint_obstacle
from kubeskew.kubelet.containers.remote.cleanup import cleanup
from kubeskew.kubelet.containers.remote.health import RuntimeState
from kubeskew.kubelet.containers.remote.measured_use import MeasuredUse
from kubeskew.kubelet.containers.remote.records import container_of, follow
from kubeskew.kubelet.containers.remote.requests import NODE, container_request, sandbox_request
from kubeskew.kubelet.containers.runtime_service import (
    ContainerConfig,
    ContainerResources,
    ContainerRuntimeError,
    ContainerSecurity,
    Device,
    DNSConfig,
    Mount,
    PodSandboxConfig,
    PortMapping,
)
from kubeskew.kubelet.device_managers import CDIDevice
from kubeskew.kubelet.protocols import cri
from kubeskew.kubelet.protocols.grpc_calls import RpcError, Unary, new_server
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

UID = "f0be0bd8-a679-4044-b966-25baadb0497f"
LABELS = {
    "io.kubernetes.pod.name": "web",
    "io.kubernetes.pod.namespace": "default",
    "io.kubernetes.pod.uid": UID,
    NODE: "node-1-abc",
}
MODES = messages.NamespaceMode


@pytest.fixture
async def served(tmp_path, monkeypatch):
    monkeypatch.setattr("kubeskew.kubelet.containers.remote.runtime._RELIST_SECONDS", 0.05)
    monkeypatch.setattr("kubeskew.kubelet.containers.remote.runtime._RETRY_SECONDS", 0.05)
    monkeypatch.setattr("kubeskew.kubelet.containers.remote.runtime.STATUS_SECONDS", 0.05)
    found = ServedRuntime(tmp_path)
    await found.start()
    yield found
    await found.close()


@pytest.fixture
async def node(served):
    found = RemoteNode(served)
    await found.start()
    yield found
    await found.stop()


def pod(uid=UID, name="web", **fields):
    return PodSandboxConfig(uid, "default", name, name, Path(f"/var/log/pods/default_{name}_{uid}"), **fields)


async def running(node, *command, uid=UID):
    config = pod(uid)
    logs = node.place.logs / f"default_web_{uid}"
    sandbox = await node.runtime.run_pod_sandbox(
        PodSandboxConfig(uid, config.namespace, config.name, config.hostname, logs)
    )
    command = command or ("sleep", "1000")
    return sandbox, await node.runtime.start_container(sandbox, ContainerConfig("main", "busybox", command))


# -- requests


def test_the_request_of_a_sandbox():
    """A pod's names, network, names of hosts, ports, kernel parameters and users are asked for as upstream
    does."""
    request = sandbox_request(
        pod(
            attempt=2,
            labels={"app": "web"},
            annotations={"a": "b"},
            dns=DNSConfig(["10.96.0.10"], ["cluster.local"], ["ndots:5"]),
            port_mappings=[PortMapping(80, 8080, "UDP", "127.0.0.1")],
            sysctls={"net.ipv4.ip_forward": "1"},
            shares_pid=True,
            security=ContainerSecurity(
                run_as_user=1, run_as_group=2, supplemental_groups=[3], strict_groups=True, privileged=True,
                seccomp="RuntimeDefault", selinux={"level": "s0"},
            ),
        ),
        "node-1-abc",
    )  # fmt: skip
    assert (request.metadata.name, request.metadata.uid, request.metadata.attempt) == ("web", UID, 2)
    assert request.hostname == "web"
    assert dict(request.labels) == {"app": "web", **LABELS}
    assert dict(request.annotations) == {"a": "b"}
    assert request.log_directory == f"/var/log/pods/default_web_{UID}"
    assert [*request.dns_config.servers, *request.dns_config.options] == ["10.96.0.10", "ndots:5"]
    [port] = request.port_mappings
    assert (port.protocol, port.container_port, port.host_port, port.host_ip) == (1, 80, 8080, "127.0.0.1")
    security = request.linux.security_context
    assert dict(request.linux.sysctls) == {"net.ipv4.ip_forward": "1"}
    options = security.namespace_options
    assert (options.network, options.pid, options.ipc) == (MODES.POD, MODES.POD, MODES.POD)
    assert (security.run_as_user.value, security.run_as_group.value) == (1, 2)
    assert [*security.supplemental_groups] == [3]
    assert (security.supplemental_groups_policy, security.privileged) == (1, True)
    assert (security.seccomp.profile_type, security.selinux_options.level) == (0, "s0")


def test_a_pod_of_the_nodes_network_has_no_hostname():
    """The machine's network, processes and queues are asked for; its name stays."""
    request = sandbox_request(pod(host_network=True, host_pid=True, host_ipc=True), "n")
    options = request.linux.security_context.namespace_options
    assert request.hostname == ""
    assert (options.network, options.pid, options.ipc) == (MODES.NODE, MODES.NODE, MODES.NODE)
    assert not request.HasField("dns_config")


def test_the_request_of_a_container(tmp_path):
    """Program, files, devices, limits and security of a container are asked for as upstream does."""
    sandbox = sandbox_request(pod(), "node-1-abc")
    config = ContainerConfig(
        "main", "busybox", ["sh"], ["-c", "id"], "/work", {"A": "b\udcff"},
        mounts=[Mount("/data", tmp_path, read_only=True, propagation="HostToContainer")],
        devices=[Device("/dev/a", "/dev/b", "r")],
        cdi_devices=[CDIDevice("gpu.example.com/claim=1", {})],
        annotations={"io.kubernetes.container.hash": "1f"},
        stdin=True, stdin_once=True, tty=True, stop_signal="SIGUSR1", target="other",
        security=ContainerSecurity(
            run_as_user=0, added_capabilities=["NET_ADMIN"], dropped_capabilities=["ALL"],
            read_only_root=True, no_new_privileges=True, seccomp="Localhost/p.json",
        ),
        resources=ContainerResources(2, 1000, 100000, 1 << 26, "0-1", -997),
    )  # fmt: skip
    request = container_request(config, sandbox, "sha256:1", 3, seccomp=tmp_path, target="c0ffee")
    assert (request.metadata.name, request.metadata.attempt) == ("main", 3)
    assert (request.image.image, request.image.user_specified_image) == ("sha256:1", "busybox")
    assert ([*request.command], [*request.args], request.working_dir) == (["sh"], ["-c", "id"], "/work")
    assert [(each.key, each.value) for each in request.envs] == [("A", b"b\xff")]
    [mount] = request.mounts
    assert (mount.container_path, mount.host_path, mount.readonly, mount.propagation) == (
        *("/data", str(tmp_path), True),
        messages.MountPropagation.PROPAGATION_HOST_TO_CONTAINER,
    )
    [device] = request.devices
    assert (device.container_path, device.host_path, device.permissions) == ("/dev/a", "/dev/b", "r")
    assert [each.name for each in request.CDI_devices] == ["gpu.example.com/claim=1"]
    assert dict(request.labels) == {**LABELS, "io.kubernetes.container.name": "main"}
    assert dict(request.annotations) == {
        "io.kubernetes.container.hash": "1f", "io.kubernetes.container.restartCount": "3"
    }  # fmt: skip
    assert request.log_path == "main/3.log"
    assert (request.stdin, request.stdin_once, request.tty) == (True, True, True)
    assert request.stop_signal == messages.Signal.SIGUSR1
    security, limits = request.linux.security_context, request.linux.resources
    options = security.namespace_options
    assert (options.pid, options.target_id) == (MODES.TARGET, "c0ffee")
    assert [*security.capabilities.add_capabilities] == ["NET_ADMIN"]
    assert [*security.capabilities.drop_capabilities] == ["ALL"]
    assert security.HasField("run_as_user")
    assert not security.HasField("run_as_group")
    assert (security.readonly_rootfs, security.no_new_privs) == (True, True)
    assert security.seccomp.localhost_ref == str(tmp_path / "p.json")
    assert "/proc/kcore" in security.masked_paths
    assert "/proc/sys" in security.readonly_paths
    assert (limits.cpu_shares, limits.cpu_quota, limits.cpu_period) == (2, 1000, 100000)
    assert (limits.memory_limit_in_bytes, limits.cpuset_cpus, limits.oom_score_adj) == (1 << 26, "0-1", -997)
    unmasked = ContainerConfig("main", "busybox", security=ContainerSecurity(unmasked_proc=True))
    bare = container_request(unmasked, sandbox, "sha256:1", 0, seccomp=tmp_path).linux.security_context
    assert ([*bare.masked_paths], [*bare.readonly_paths]) == ([], [])
    assert bare.seccomp.profile_type == messages.SecurityProfile.ProfileType.Unconfined


# -- statuses

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        ({"state": "CONTAINER_RUNNING", "started_at": SECOND}, None),
        ({"state": "CONTAINER_EXITED", "started_at": SECOND, "finished_at": 2 * SECOND, "exit_code": 3,
          "reason": "Error", "message": "m"}, (2, 3, "Error", "m")),
        ({"state": "CONTAINER_EXITED", "finished_at": 2 * SECOND, "exit_code": 137, "reason": "OOMKilled"},
         (2, 137, "OOMKilled", "")),
        ({"state": "CONTAINER_UNKNOWN"}, (NOW.timestamp(), 137, "ContainerStatusUnknown", "")),
    ],
)  # fmt: skip
def test_states_of_containers(status, ended):
    """A record has the end that the runtime reports; a container that it has lost counts as killed."""
    found = messages.ContainerStatus(
        id="1", metadata=messages.ContainerMetadata(name="main", attempt=1),
        image=messages.ImageSpec(image="busybox"), image_ref="busybox@sha256:1",
        annotations={"io.kubernetes.container.restartCount": "7"}, log_path="/log", **status,
    )  # fmt: skip
    container = container_of(found, messages.ContainerConfig(), "cri-o")
    follow(container, found, NOW)
    follow(container, messages.ContainerStatus(state="CONTAINER_RUNNING"), NOW)  # a late answer
    assert (container.container_id, container.attempt, container.log_path) == ("cri-o://1", 7, "/log")
    assert container.image_id == "busybox@sha256:1"
    if ended is None:
        assert container.running(NOW)
    else:
        end = container.ends_at.timestamp()
        assert (end, container.exit_code, container.reason, container.message) == ended


# -- health


class Clock:
    """A clock that moves when asked to."""

    def __init__(self):
        self.at = 100.0

    def monotonic(self):
        return self.at


def conditions(**failing):
    """The status of a runtime, with the reasons and messages of what is not ready."""
    return messages.RuntimeStatus(
        conditions=[
            messages.RuntimeCondition(
                type=kind, status=kind not in failing, reason=failing.get(kind, ""), message="m"
            )
            for kind in ("RuntimeReady", "NetworkReady")
        ]
    )


@pytest.mark.parametrize(
    ("status", "relisted", "passed", "text"),
    [
        (conditions(), 100.0, 0, ""),
        (conditions(), 100.0, 29, ""),
        (conditions(), 130.0, 30, "container runtime is down"),
        (conditions(), 100.0, 200.5,
         ("[container runtime is down, PLEG is not healthy: pleg was last seen active 3m20.5s ago; "
          "threshold is 3m0s]")),
        (conditions(), None, 0, "PLEG is not healthy: pleg has yet to be successful"),
        (conditions(NetworkReady="NetworkPluginNotReady"), 100.0, 0,
         "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:m"),
        (None, 100.0, 0,
         "[container runtime status check may not have completed yet, network state unknown]"),
        (conditions(RuntimeReady="Broken"), 100.0, 0,
         ("[container runtime status check may not have completed yet, "
          "container runtime not ready: RuntimeReady=false reason:Broken message:m]")),
    ],
)  # fmt: skip
def test_why_a_node_is_not_ready(status, relisted, passed, text):
    """Each reason is upstream's, and several are listed."""
    clock = Clock()
    state = RuntimeState(clock)
    if status is not None:
        state.noted(status)
    clock.at += passed
    assert state.problem(relisted, 180.0) == text


async def test_a_runtime_that_goes_and_comes_back(served, node, monkeypatch):
    """The node is not ready while its runtime is down; containers go on, and one that is to stop does."""
    monkeypatch.setattr("kubeskew.kubelet.containers.remote.health._DOWN_SECONDS", 0.2)
    sandbox, container = await running(node)
    await served.stop()
    await until(lambda: node.runtime.problem() == "container runtime is down")
    with pytest.raises(ContainerRuntimeError, match="connect") as caught:
        await node.runtime.exec_sync(sandbox, container, ["true"], 1)
    assert caught.value.code == "Unavailable"
    assert container.running(served.clock.now())
    node.runtime.stop_container(sandbox, container, 1)
    await served.start()
    await until(lambda: node.runtime.problem() == "" and container.ends_at is not None)


# -- endpoints


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("unix:///none/x.sock", (
            'validate service connection: validate CRI v1 runtime API for endpoint "unix:///none/x.sock": '
            "rpc error: code = Unavailable desc = connection error: desc = "
            '"transport: Error while dialing: dial unix /none/x.sock: connect: no such file or directory"')),
        ("tcp://127.0.0.1:1", "only support unix socket endpoint"),
        ("http://x", 'protocol "http" not supported'),
        ("unix://x", "unix://x is no URL such as unix:///run/containerd/containerd.sock"),
    ],
)  # fmt: skip
async def test_endpoints_that_are_none(endpoint, why):
    """The reason is upstream's."""
    assert await endpoint_obstacle(endpoint) == why


@pytest.mark.parametrize(
    ("service", "answer", "why"),
    [
        ("runtime.v1alpha2.RuntimeService", {}, "code = Unimplemented"),
        (cri.RUNTIME, {}, ("get remote runtime typed version failed: not all fields are set in "
         "VersionResponse (missing Version, RuntimeName, RuntimeApiVersion, RuntimeVersion)")),
        (cri.RUNTIME, {"version": "0.2.0", "runtime_name": "x", "runtime_api_version": "v1",
                       "runtime_version": "1"}, "runtime api version is not supported"),
    ],
)  # fmt: skip
async def test_runtimes_of_other_versions(served, service, answer, why):
    """Another version of CRI, and another version of its messages, are refused each with its reason."""
    await served.stop()
    version = cri.RUNTIME_METHODS["Version"]
    method = Unary(service, "Version", version.request, version.response)

    async def answered(_request):
        return messages.VersionResponse(**answer)

    server = new_server()
    method.serve(server, answered)
    server.listen(served.socket)
    await server.start()
    try:
        assert why in await endpoint_obstacle(served.endpoint)
    finally:
        await server.stop(0)


async def test_an_endpoint_that_answers(served):
    """A runtime of CRI v1 is no obstacle."""
    assert await endpoint_obstacle(served.endpoint) == ""


# -- pods


async def test_pods_of_others_are_left_alone(served, node, tmp_path):
    """A node has its own pods alone, of whatever else uses the runtime; so has the end of its cluster."""
    other = RemoteNode(served, "node-2")
    await other.start()
    try:
        await running(node)
        theirs, _ = await running(other, uid="other")
        foreign = messages.PodSandboxConfig(
            metadata=messages.PodSandboxMetadata(name="x", uid="x", namespace="x"),
            log_directory=str(tmp_path),
        )
        calls = RuntimeCalls(served.endpoint)
        await calls.call("RunPodSandbox", messages.RunPodSandboxRequest(config=foreign))
        await node.runtime._cache.relist()
        assert [each.pod_uid for each in node.runtime.sandboxes()] == [UID]
        await cleanup(node.place.requests)
        await cleanup(tmp_path / "nothing-ever-ran")
        await until(lambda: not node.runtime.sandboxes())
        listed = (await calls.call("ListPodSandbox", messages.ListPodSandboxRequest())).items
        assert sorted(each.metadata.uid for each in listed) == ["other", "x"]
        assert theirs.ready
        await calls.close()
    finally:
        await other.stop()


async def test_what_others_do_to_a_pod_is_noticed(served, node):
    """A container that ends, and a sandbox that somebody removes, are noticed with the next list."""
    changed = []
    node.runtime.on_change = changed.append
    sandbox, container = await running(node, "sh", "-c", "sleep 0.2; exit 4")
    await until(lambda: container.ends_at is not None)
    assert (container.exit_code, changed) == (4, [UID])
    calls = RuntimeCalls(served.endpoint)
    gone = messages.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id)
    await calls.call("RemovePodSandbox", gone)
    await calls.close()
    await until(lambda: node.runtime.sandbox(UID) is None)
    assert changed == [UID, UID]


async def test_events_are_followed_where_there_are_some(served):
    """With the gate, an event has the pods listed long before the next list is due."""
    follower = RemoteNode(served, follows_events=True)
    await follower.start()
    calls = RuntimeCalls(served.endpoint)
    try:
        await until(lambda: served.listeners)
        _, container = await running(follower)
        await calls.call("StopContainer", messages.StopContainerRequest(container_id=container.id))
        await until(lambda: container.ends_at is not None)
    finally:
        await calls.close()
        await follower.stop()


async def test_a_runtime_without_events(served, monkeypatch):
    """The kubelet lists as often as without the gate once it has tried some times."""

    async def broken(_server, _request):
        raise RpcError(grpc.StatusCode.UNIMPLEMENTED, "method GetContainerEvents not implemented")
        yield

    await served.stop()
    monkeypatch.setattr(RuntimeServer, "container_events", broken)
    await served.start()
    follower = RemoteNode(served, follows_events=True)
    await follower.start()
    try:
        _, container = await running(follower, "sh", "-c", "sleep 0.5; exit 5")
        await until(lambda: container.ends_at is not None)
    finally:
        await follower.stop()


async def test_garbage(node):
    """A sandbox that another has replaced is removed once it has no containers, with the files about it."""
    runtime = node.runtime
    first, _ = await running(node)
    old = first.id
    await runtime.stop_pod_sandbox(first)
    logs = node.place.logs / f"default_web_{UID}"
    second = await runtime.run_pod_sandbox(PodSandboxConfig(UID, "default", "web", "web", logs))
    requests = node.place.requests / "sandboxes"
    await runtime._collect_once()
    assert {path.name for path in requests.iterdir()} == {old, second.id}
    for _ in range(2):
        await runtime.start_container(second, ContainerConfig("main", "busybox", ["true"]))
        await until(lambda: not second.running(node.clock.now()))
    await runtime._collect_once()
    await runtime._collect_once()
    assert [path.name for path in requests.iterdir()] == [second.id]
    await runtime.remove_pod_sandbox(UID)
    assert [*requests.iterdir()] == []
    assert [*(node.place.requests / "containers").iterdir()] == []
    assert [*node.place.logs.iterdir()] == []


async def test_attempts_go_on_after_the_runtime_has_forgotten(node):
    """A container whose attempts are known by its logs alone gets the next number."""
    logs = node.place.logs / f"default_web_{UID}" / "main"
    logs.mkdir(parents=True)
    for name in ("0.log", "1.log.20260101-000000.gz", "1.log", "junk"):
        (logs / name).touch()
    _, container = await running(node)
    assert container.attempt == 2


async def test_refusals(node):
    """A pod with a user namespace, an image that is gone and a target that there is not are refused."""
    with pytest.raises(ContainerRuntimeError, match="runtime does not support user namespaces"):
        await node.runtime.run_pod_sandbox(pod(host_users=False))
    sandbox, _ = await running(node)
    with pytest.raises(ContainerRuntimeError, match="unable to find target container nobody"):
        await node.runtime.start_container(sandbox, ContainerConfig("x", "busybox", target="nobody"))


# -- logs and use


def test_rotated_logs(tmp_path, monkeypatch):
    """A log that is too large moves away; those before it are compressed, and the oldest are removed."""
    monkeypatch.setattr(log_rotation, "_MAX_BYTES", 10)
    path = tmp_path / "0.log"
    path.write_bytes(b"x" * 9)
    assert not log_rotation.is_too_large(path)
    for hour in range(6):
        path.write_bytes(b"%d" % hour * 10)
        assert log_rotation.is_too_large(path)
        log_rotation.rotate(path, datetime(2026, 1, 1, hour).astimezone())
    (tmp_path / "0.log.20260101-040000.tmp").touch()
    path.write_bytes(b"6" * 10)
    log_rotation.rotate(path, datetime(2026, 1, 1, 6).astimezone())
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == [
        "0.log.20260101-030000.gz", "0.log.20260101-040000.gz", "0.log.20260101-050000.gz",
        "0.log.20260101-060000",
    ]  # fmt: skip
    log_rotation.remove(path)
    assert [*tmp_path.iterdir()] == []


async def test_a_kubelet_rotates_logs(node, monkeypatch):
    """The runtime goes on in a new file at the log's path."""
    monkeypatch.setattr(log_rotation, "_MAX_BYTES", 10)
    sandbox, container = await running(node, "sh", "-c", "while true; do echo line; sleep 0.7; done")
    path = Path(container.log_path)
    await until(lambda: path.exists() and path.stat().st_size > 10)
    await node.runtime._rotate_log(sandbox, container)
    await until(lambda: path.exists() and path.stat().st_size > 10)
    assert len([*path.parent.iterdir()]) == 2
    path.unlink()  # noqa: ASYNC240 - of a test
    await node.runtime._rotate_log(sandbox, container)
    await until(path.exists)


def test_use_between_two_measurements():
    """A runtime that only counts time gives a rate; one that says the rate is believed."""

    def measured(at, used, cores=None):
        cpu = messages.CpuUsage(timestamp=at, usage_core_nano_seconds=messages.UInt64Value(value=used))
        if cores is not None:
            cpu.usage_nano_cores.value = cores
        return messages.ContainerStats(attributes=messages.ContainerAttributes(id="1"), cpu=cpu)

    use = MeasuredUse()
    assert use.of("1").cores == 0
    use.noted([measured(SECOND, SECOND)])
    assert use.of("1").cores == 0
    use.noted([measured(3 * SECOND, 2 * SECOND)])
    use.noted([measured(3 * SECOND, 2 * SECOND)])  # asked again at once
    assert (use.of("1").cores, use.of("1").core_seconds) == (0.5, 2)
    use.noted([measured(4 * SECOND, 2 * SECOND, cores=SECOND // 4)])
    assert use.of("1").cores == 0.25
