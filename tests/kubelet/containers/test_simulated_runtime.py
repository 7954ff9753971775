"""The simulated runtime: what its files keep, what its containers do, and when they end."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.kubelet.containers import acting
from kubeskew.kubelet.containers.journal import Journal
from kubeskew.kubelet.containers.runtime_service import (
    CommandResult,
    CommandTimeoutError,
    ContainerConfig,
    ContainerRuntimeError,
    Device,
    Mount,
    PodSandboxConfig,
)
from kubeskew.kubelet.containers.sandbox import full_image_name
from kubeskew.kubelet.containers.simulated.runtime import SimulatedRuntime
from kubeskew.kubelet.device_managers import CDIDevice


@dataclass
class StepClock:
    """A clock that moves when asked to."""

    at: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))

    def now(self):
        return self.at

    def monotonic(self):
        return self.at.timestamp()

    async def sleep(self, seconds):
        self.step(seconds)

    def step(self, seconds):
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def clock():
    return StepClock()


@pytest.fixture
def open_runtime(tmp_path, clock):
    async def opened():
        runtime = SimulatedRuntime(tmp_path, "node-1", clock, SeededEntropy())
        await runtime.load()
        return runtime

    return opened


def pod(uid="u"):
    return PodSandboxConfig(uid, "default", "pod", "pod", Path("logs"))


def config(name="main", image="nginx", **annotations):
    """A container's configuration, whose annotations have underscores and no prefix here."""
    named = {acting.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    return ContainerConfig(name, image, annotations=named)


async def test_state_outlives_the_runtimes_user(open_runtime, clock):
    """A second runtime on the same directory sees the same sandboxes and containers."""
    runtime = await open_runtime()
    sandbox = await runtime.run_pod_sandbox(pod())
    device = CDIDevice("vendor/class=x", {})
    await runtime.start_container(sandbox, ContainerConfig("main", "i", env={"A": "b"}, cdi_devices=[device]))
    await runtime.start_container(sandbox, config("short", runs_for="5", exit_code="3"))
    clock.step(60)
    again = (await open_runtime()).sandbox("u")

    assert again == sandbox
    assert again.latest("main").running(clock.now())
    assert again.latest("main").env == {"A": "b"}
    assert not again.latest("short").running(clock.now())
    assert again.latest("short").exit_code == 3


async def test_devices_and_mounts_are_recorded(open_runtime):
    """A container's record has the devices, files and annotations that it was given."""
    runtime = await open_runtime()
    sandbox = await runtime.run_pod_sandbox(pod())
    given = ContainerConfig(
        "main",
        "nginx",
        devices=[Device("/dev/gpu0", "/dev/gpu3", "rw")],
        mounts=[Mount("/usr/lib/gpu", Path("/lib/gpu"), read_only=True)],
        annotations={"vendor/gpu": "gpu3"},
    )
    await runtime.start_container(sandbox, given)
    container = (await open_runtime()).sandbox("u").latest("main")

    assert container.device_nodes == [{"path": "/dev/gpu0", "host_path": "/dev/gpu3", "permissions": "rw"}]
    assert container.host_mounts == [{"path": "/usr/lib/gpu", "host_path": "/lib/gpu", "read_only": True}]
    assert container.annotations == {"vendor/gpu": "gpu3"}


async def test_a_removed_sandbox_is_gone(open_runtime):
    """Nothing is left of a pod that was removed."""
    runtime = await open_runtime()
    first = await runtime.run_pod_sandbox(pod())
    await runtime.remove_pod_sandbox("u")
    second = await runtime.run_pod_sandbox(pod("v"))
    await runtime.start_container(second, config())

    assert first.ip != second.ip
    assert [sandbox.pod_uid for sandbox in (await open_runtime()).sandboxes()] == ["v"]


async def test_addresses_go_round(open_runtime):
    """An address comes again only after all others, also when the kubelet has been restarted meanwhile."""
    runtime = await open_runtime()
    addresses = []
    for number in range(254):
        sandbox = await runtime.run_pod_sandbox(pod(str(number)))
        await runtime.start_container(sandbox, config())
        addresses.append(sandbox.ip)
        if number == 9:
            runtime = await open_runtime()
        await runtime.remove_pod_sandbox(str(number))
    assert len({*addresses}) == 253
    assert addresses[0] == addresses[-1]


async def test_starts_and_ends_are_recorded_for_good(open_runtime, clock, tmp_path):
    """The record of what containers did outlives them and their pod."""
    runtime = await open_runtime()
    sandbox = await runtime.run_pod_sandbox(pod())
    with_device = ContainerConfig("main", "nginx", cdi_devices=[CDIDevice("vendor/class=x", {})])
    first = await runtime.start_container(sandbox, with_device)
    clock.step(1)
    runtime.stop_container(sandbox, first, grace=30)
    clock.step(1)
    again = await open_runtime()
    await again.start_container(again.sandbox("u"), config())
    await again.remove_pod_sandbox("u")

    log = Journal(tmp_path / "events.jsonl").entries()
    assert [(entry["event"], entry["restartCount"], entry["cdiDevices"]) for entry in log] == [
        ("started", 0, ["vendor/class=x"]),
        ("stopped", 0, ["vendor/class=x"]),
        ("started", 1, []),
    ]
    assert {(entry["podUID"], entry["container"]) for entry in log} == {("u", "main")}
    assert [entry["time"][17:19] for entry in log] == ["00", "01", "02"]


async def test_what_was_put_into_a_container_is_recorded_for_good(open_runtime, tmp_path):
    """The record of a start, not that of an end, has each CDI device, and the program's variables."""
    runtime = await open_runtime()
    sandbox = await runtime.run_pod_sandbox(pod())
    env = {"A": "1", "B": "2"}
    device = CDIDevice("v/c=x", {"A": "1"}, ["/dev/x"], ["/mnt"])
    first = await runtime.start_container(
        sandbox, ContainerConfig("main", "nginx", env=env, cdi_devices=[device])
    )
    runtime.stop_container(sandbox, first, grace=30)

    started, stopped = Journal(tmp_path / "events.jsonl").entries()
    assert started["injected"] == [
        {"name": "v/c=x", "env": {"A": "1"}, "nodes": ["/dev/x"], "mounts": ["/mnt"]}
    ]
    assert started["env"] == env
    assert not {"injected", "env"} & {*stopped}


@pytest.mark.parametrize("torn", [b"", bytes(900), b'{"pod_uid": "u", "na' + bytes(100)])
async def test_what_a_crash_of_the_machine_emptied_is_lost(open_runtime, tmp_path, torn):
    """An empty or torn file is a pod whose containers are gone, as they would be."""
    runtime = await open_runtime()
    await runtime.start_container(await runtime.run_pod_sandbox(pod()), config())
    (tmp_path / "u.json").write_bytes(torn)

    assert (await open_runtime()).sandboxes() == []
    assert not list(tmp_path.glob("*.json"))


async def test_old_attempts_are_forgotten(open_runtime):
    """The newest attempt and the one before it are kept, and the count goes on."""
    runtime = await open_runtime()
    sandbox = await runtime.run_pod_sandbox(pod())
    for _ in range(4):
        await runtime.start_container(sandbox, config(runs_for="0"))

    assert [container.attempt for container in sandbox.containers] == [2, 3]
    assert sandbox.previous("main").attempt == 2


@pytest.mark.parametrize(
    ("annotations", "graces", "seconds", "code"),
    [
        pytest.param({}, [30], 0, 0, id="exits on SIGTERM"),
        pytest.param({"on_sigterm": "exit"}, [30], 0, 0, id="says that it exits"),
        pytest.param({"on_sigterm": "ignore"}, [30], 30, 137, id="ignores SIGTERM"),
        pytest.param({"on_sigterm": "10"}, [30], 10, 0, id="takes its time"),
        pytest.param({"on_sigterm": "60"}, [30], 30, 137, id="takes too long"),
        pytest.param({"on_sigterm": "ignore"}, [30, 5], 5, 137, id="asked again with less grace"),
        pytest.param({"on_sigterm": "ignore"}, [5, 30], 5, 137, id="asked again with more grace"),
        pytest.param(
            {"runs_for": "3", "exit_code": "7", "on_sigterm": "ignore"}, [30], 3, 7, id="ends by itself"
        ),
        pytest.param({"on_sigterm": "ignore"}, [0], 0, 137, id="no grace"),
    ],
)
async def test_how_a_container_stops(open_runtime, clock, annotations, graces, seconds, code):
    """A container that is asked to stop ends after the right time with the right exit code."""
    runtime = await open_runtime()
    sandbox = await runtime.run_pod_sandbox(pod())
    container = await runtime.start_container(sandbox, config(**annotations))
    before = clock.now()
    for grace in graces:
        runtime.stop_container(sandbox, container, grace)

    assert (container.ends_at - before).total_seconds() == seconds
    assert container.exit_code == code


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("team/app", "docker.io/team/app:latest"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        ("localhost/app@sha256:00", "localhost/app@sha256:00"),
    ],
)
def test_image_names_are_written_in_full(name, full):
    """Registry and tag are added as containerd does."""
    assert full_image_name(name) == full


@pytest.mark.parametrize(
    ("argv", "annotations", "seconds", "code"),
    [
        (["sleep", "5"], {}, 5, 0),
        (["/bin/sleep", "2m"], {}, 120, 0),
        (["true"], {}, 0, 0),
        (["false"], {}, 0, 1),
        (["exit", "3"], {}, 0, 3),
        (["sh", "-c", "sleep 3"], {}, 3, 0),
        (["/bin/bash", "-ec", "echo hi && sleep 3; exit 4"], {}, 3, 4),
        (["sh", "-c", "while true; do env; sleep 1; done"], {}, None, 0),
        (["sh", "-c", "until test -e /x; do sleep 1; done"], {}, None, 0),
        (["sleep", "infinity"], {}, None, 0),
        (["nginx", "-g", "daemon off;"], {}, None, 0),
        ([], {}, None, 0),
        ([], {"runs_for": "5"}, 5, 0),
        ([], {"exit_code": "3"}, 0, 3),
        (["sleep", "9"], {"exit_code": "3"}, 9, 3),
        (["sh", "-c", "sleep 9; exit 1"], {"runs_for": "5"}, 5, 0),
        ([], {"runs_for": "5", "exit_code": "3"}, 5, 3),
        (["cp", "/a", "/b"], {"kind": "init"}, 0, 0),
        (["sleep", "4"], {"kind": "init"}, 4, 0),
        (["sh", "-c", "exit 2"], {"kind": "init"}, 0, 2),
        (["cp", "/a", "/b"], {"kind": "init", "runs_for": "7"}, 7, 0),
        (["create", "--host=a"], {"kind": "job"}, 0, 0),
        (["pause"], {"kind": "job"}, None, 0),
    ],
)
async def test_a_container_ends_as_its_program_does(open_runtime, argv, annotations, seconds, code):
    """Annotations come before the command; what is not known runs until stopped, in an init container and in
    a Job it succeeds."""
    runtime = await open_runtime()
    sandbox = await runtime.run_pod_sandbox(pod())
    named = config(**annotations).annotations
    given = ContainerConfig("main", "app", command=argv, annotations=named)
    container = await runtime.start_container(sandbox, given)
    lasts = container.ends_at and (container.ends_at - container.started_at).total_seconds()

    assert (lasts, container.exit_code) == (seconds, code)


async def test_a_log_grows_as_time_passes(open_runtime, clock):
    """The log has what the program has written so far, the same after a restart; nothing after its end."""
    runtime = await open_runtime()
    sandbox = await runtime.run_pod_sandbox(pod())
    script = "echo one; sleep 10; echo two; sleep 10; echo three"
    container = await runtime.start_container(sandbox, ContainerConfig("main", "i", ["sh", "-c", script]))
    texts = []
    for seconds in (0, 9, 2, 0):
        clock.step(seconds)
        texts.append(b"".join(line.data for line in runtime.logs(sandbox, container)))
    again = await open_runtime()
    found = again.logs(again.sandbox("u"), again.sandbox("u").latest("main"))
    runtime.stop_container(sandbox, container, 30)
    clock.step(60)

    assert texts == [b"one\n", b"one\n", b"one\ntwo\n", b"one\ntwo\n"]
    assert b"".join(line.data for line in found) == texts[-1]
    assert b"".join(line.data for line in runtime.logs(sandbox, container)) == texts[-1]


async def test_a_log_is_followed_to_the_end(open_runtime):
    """Following a log begins at the call, and ends with the container."""
    runtime = await open_runtime()
    sandbox = await runtime.run_pod_sandbox(pod())
    script = "echo one; sleep 10; echo two; sleep 10; echo three; sleep 3"
    container = await runtime.start_container(sandbox, ContainerConfig("main", "i", ["sh", "-c", script]))
    found = [line async for line in runtime.follow_logs(sandbox, container)]

    assert [line.data for line in found] == [b"two\n", b"three\n"]
    assert [(line.time - container.started_at).total_seconds() for line in found] == [10, 20]


async def test_commands_in_a_container(open_runtime, clock):
    """A command of the list does what it says; an unknown one succeeds as a probe, and cannot be executed."""
    runtime = await open_runtime()
    sandbox = await runtime.run_pod_sandbox(pod())
    container = await runtime.start_container(sandbox, ContainerConfig("main", "i", env={"A": "b"}))
    before = clock.now()

    async def ran(*command):
        return await runtime.exec_sync(sandbox, container, command, 5)

    assert await ran("sh", "-c", "sleep 2; echo $A; exit 3") == CommandResult(3, b"b\n", b"")
    assert (clock.now() - before).total_seconds() == 2
    assert await ran("pg_isready") == CommandResult(0, b"", b"")
    with pytest.raises(CommandTimeoutError):
        await ran("sleep", "6")
    with pytest.raises(
        ContainerRuntimeError, match=r'exec: "pg_isready": executable file not found in \$PATH'
    ):
        await runtime.exec(sandbox, container, ["pg_isready"], None, stdin=False, tty=False)


@pytest.mark.parametrize(
    ("declared", "port", "answers"),
    [("", 80, True), ('[{"containerPort":80}]', 80, True), ('[{"containerPort":80}]', 81, False)],
)
async def test_ports_of_a_pod(open_runtime, declared, port, answers):
    """A port answers if a container declares it, or if none is declared, and reports what it was asked."""
    runtime = await open_runtime()
    sandbox = await runtime.run_pod_sandbox(pod())
    await runtime.start_container(sandbox, ContainerConfig("main", "i", annotations={acting.PORTS: declared}))
    if not answers:
        with pytest.raises(ConnectionRefusedError):
            await runtime.dial(sandbox, port)
        return
    connection = await runtime.dial(sandbox, port)
    await connection.write(b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    text = (await connection.read()).decode()
    assert text.startswith("HTTP/1.1 200 OK\r\n")
    assert '{"pod":"pod","namespace":"default","node":"node-1","method":"GET","path":"/a"}' in text
    assert await connection.read() == b""
