"""The fake runtime: what its files keep, and when its containers end."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.kubelet.containers.container_process import run_program
from kubeskew.kubelet.containers.execution.files import FileError
from kubeskew.kubelet.containers.execution.process import BytesInput
from kubeskew.kubelet.containers.journal import Journal
from kubeskew.kubelet.containers.program import Program, program_of
from kubeskew.kubelet.containers.runtime import FakeRuntime
from kubeskew.kubelet.containers.sandbox import full_image_name
from kubeskew.kubelet.device_managers import CDIDevice, ContainerDevices, DeviceNode, HostMount


@dataclass
class StepClock:
    """A clock that moves when asked to."""

    at: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))

    def now(self):
        return self.at

    def monotonic(self):
        return self.at.timestamp()

    async def sleep(self, seconds):
        raise AssertionError("the runtime does not sleep")

    def step(self, seconds):
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def clock():
    return StepClock()


@pytest.fixture
def open_runtime(tmp_path, clock):
    def opened():
        runtime = FakeRuntime(tmp_path, "node-1", clock, SeededEntropy())
        runtime.load()
        return runtime

    return opened


POD = {"metadata": {"uid": "u", "namespace": "default", "name": "pod"}}


def test_state_outlives_the_runtimes_user(open_runtime, clock):
    """A second runtime on the same directory sees the same sandboxes and containers."""
    runtime = open_runtime()
    sandbox = runtime.run_sandbox(POD)
    env, ids = {"A": "b"}, ["vendor/class=x"]
    runtime.start_container(sandbox, "main", "nginx", Program(), env=env, devices=ContainerDevices(ids))
    runtime.start_container(sandbox, "short", "nginx", Program(runs_for=5, exit_code=3))
    clock.step(60)
    again = open_runtime().sandbox("u")

    assert again == sandbox
    assert again.latest("main").running(clock.now())
    assert again.latest("main").env == {"A": "b"}
    assert not again.latest("short").running(clock.now())
    assert again.latest("short").exit_code == 3


def test_devices_and_mounts_are_seen_inside(open_runtime, tmp_path):
    """Device files lie where the driver wants them, the machine's files where they are mounted."""
    library = tmp_path / "host" / "lib"
    library.mkdir(parents=True)
    (library / "libgpu.so").write_text("ELF")
    devices = ContainerDevices(
        nodes=[DeviceNode("/dev/gpu0", "/dev/gpu3", "rw")],
        mounts=[
            HostMount("/usr/lib/gpu", str(library), read_only=True),
            HostMount("/etc/gpu.conf", str(library / "libgpu.so")),
            HostMount("/opt/driver", "/nowhere/on/this/machine"),
        ],
        annotations={"vendor/gpu": "gpu3"},
    )
    runtime = open_runtime()
    sandbox = runtime.run_sandbox(POD)
    runtime.start_container(sandbox, "main", "nginx", Program(), devices=devices)
    again = open_runtime()
    sandbox = again.sandbox("u")
    container = sandbox.latest("main")
    files = again.container_process(sandbox, container).files

    assert files.names("/dev") == ["gpu0", "null"]
    assert files.read("/usr/lib/gpu/libgpu.so") == files.read("/etc/gpu.conf") == b"ELF"
    assert files.names("/opt/driver") == []
    with pytest.raises(FileError, match="Read-only file system"):
        files.write("/usr/lib/gpu/new", b"", 0)
    assert container.annotations == {"vendor/gpu": "gpu3"}


def test_a_removed_sandbox_is_gone(open_runtime):
    """Nothing is left of a pod that was removed."""
    runtime = open_runtime()
    first = runtime.run_sandbox(POD)
    runtime.remove_sandbox("u")
    second = runtime.run_sandbox({"metadata": {**POD["metadata"], "uid": "v"}})
    runtime.start_container(second, "main", "nginx", Program())

    assert first.ip != second.ip
    assert [sandbox.pod_uid for sandbox in open_runtime().sandboxes()] == ["v"]


def test_addresses_go_round(open_runtime):
    """An address comes again only after all others, also when the kubelet has been restarted meanwhile."""
    runtime = open_runtime()
    addresses = []
    for number in range(254):
        pod = {"metadata": {**POD["metadata"], "uid": str(number)}}
        sandbox = runtime.run_sandbox(pod)
        runtime.start_container(sandbox, "main", "nginx", Program())
        addresses.append(sandbox.ip)
        if number == 9:
            runtime = open_runtime()
        runtime.remove_sandbox(str(number))
    assert len({*addresses}) == 253
    assert addresses[0] == addresses[-1]


def test_starts_and_ends_are_recorded_for_good(open_runtime, clock, tmp_path):
    """The record of what containers did outlives them and their pod."""
    runtime = open_runtime()
    sandbox = runtime.run_sandbox(POD)
    devices = ContainerDevices(["vendor/class=x"])
    first = runtime.start_container(sandbox, "main", "nginx", Program(), devices=devices)
    clock.step(1)
    runtime.stop_container(sandbox, first, grace=30)
    clock.step(1)
    open_runtime().start_container(sandbox, "main", "nginx", Program())
    runtime.remove_sandbox("u")

    log = Journal(tmp_path / "events.jsonl").entries()
    assert [(entry["event"], entry["restartCount"], entry["cdiDevices"]) for entry in log] == [
        ("started", 0, ["vendor/class=x"]),
        ("stopped", 0, ["vendor/class=x"]),
        ("started", 1, []),
    ]
    assert {(entry["podUID"], entry["container"]) for entry in log} == {("u", "main")}
    assert [entry["time"][17:19] for entry in log] == ["00", "01", "02"]


def test_what_was_put_into_a_container_is_recorded_for_good(open_runtime, tmp_path):
    """The record of a start, not that of an end, has each CDI device, and the program's variables."""
    runtime = open_runtime()
    sandbox = runtime.run_sandbox(POD)
    devices = ContainerDevices(["v/c=x"], cdi=[CDIDevice("v/c=x", {"A": "1"}, ["/dev/x"], ["/mnt"])])
    env = {"A": "1", "B": "2"}
    first = runtime.start_container(sandbox, "main", "nginx", Program(), env=env, devices=devices)
    runtime.stop_container(sandbox, first, grace=30)

    started, stopped = Journal(tmp_path / "events.jsonl").entries()
    assert started["injected"] == [
        {"name": "v/c=x", "env": {"A": "1"}, "nodes": ["/dev/x"], "mounts": ["/mnt"]}
    ]
    assert started["env"] == env
    assert not {"injected", "env"} & {*stopped}


def test_what_a_crash_of_the_machine_emptied_is_lost(open_runtime, tmp_path):
    """An empty file is a pod whose containers are gone, as they would be."""
    runtime = open_runtime()
    runtime.start_container(runtime.run_sandbox(POD), "main", "nginx", Program())
    (tmp_path / "u.json").write_bytes(b"")

    assert open_runtime().sandboxes() == []
    assert not list(tmp_path.glob("*.json"))


def test_old_attempts_are_forgotten(open_runtime):
    """The newest attempt and the one before it are kept, and the count goes on."""
    runtime = open_runtime()
    sandbox = runtime.run_sandbox(POD)
    for _ in range(4):
        runtime.start_container(sandbox, "main", "nginx", Program(runs_for=0))

    assert [container.attempt for container in sandbox.containers] == [2, 3]
    assert sandbox.previous("main").attempt == 2


@pytest.mark.parametrize(
    ("program", "grace", "delay", "seconds", "code"),
    [
        pytest.param(Program(), 30, 0, 0, 0, id="exits on SIGTERM"),
        pytest.param(Program(stops_after=None), 30, 0, 30, 137, id="ignores SIGTERM"),
        pytest.param(Program(stops_after=10), 30, 0, 10, 0, id="takes its time"),
        pytest.param(Program(stops_after=60), 30, 0, 30, 137, id="takes too long"),
        pytest.param(Program(), 30, 5, 5, 0, id="after its preStop hook"),
        pytest.param(Program(), 30, 60, 30, 137, id="hook longer than the grace"),
        pytest.param(Program(runs_for=3, exit_code=7, stops_after=None), 30, 0, 3, 7, id="ends by itself"),
        pytest.param(Program(stops_after=None), 0, 0, 0, 137, id="no grace"),
    ],
)
def test_how_a_container_stops(open_runtime, clock, program, grace, delay, seconds, code):
    """A container that is asked to stop ends after the right time with the right exit code."""
    runtime = open_runtime()
    sandbox = runtime.run_sandbox(POD)
    container = runtime.start_container(sandbox, "main", "nginx", program)
    before = clock.now()
    runtime.stop_container(sandbox, container, grace, delay)

    assert (container.ends_at - before).total_seconds() == seconds
    assert container.exit_code == code


@pytest.mark.parametrize(
    ("argv", "program", "seconds", "code"),
    [
        pytest.param(["kill", "1"], Program(), 0, 0, id="SIGTERM"),
        pytest.param(["kill", "-s", "TERM", "1"], Program(), 0, 0, id="named apart"),
        pytest.param(["kill", "-SIGINT", "1"], Program(stops_after=5), 5, 0, id="takes its time"),
        pytest.param(["kill", "1"], Program(stops_after=None), None, 0, id="ignored"),
        pytest.param(["kill", "-9", "1"], Program(), None, 0, id="SIGKILL does not reach it"),
        pytest.param(["kill", "7"], Program(), None, 1, id="no such process"),
    ],
)
async def test_a_command_inside_ends_the_container(open_runtime, clock, argv, program, seconds, code):
    """A `kill` inside a container ends its program as the signal says; SIGKILL does not reach it."""
    runtime = open_runtime()
    sandbox = runtime.run_sandbox(POD)
    container = runtime.start_container(sandbox, "main", "nginx", program)
    container_process, before = runtime.container_process(sandbox, container), clock.now()
    process = container_process.process(BytesInput(), lambda _: None, lambda _: None, tty=False)

    assert await run_program(process, argv) == code
    lasts = None if container.ends_at is None else (container.ends_at - before).total_seconds()
    assert (lasts, container.exit_code) == (seconds, 0)


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


SECONDS = [
    (["sleep", "5"], 5, 0),
    (["/bin/sleep", "2m"], 120, 0),
    (["true"], 0, 0),
    (["false"], 0, 1),
    (["sh", "-c", "sleep 3"], 3, 0),
    (["/bin/bash", "-ec", "echo hi && sleep 3; exit 4"], 3, 4),
    (["sh", "-c", "false || sleep 2"], 2, 0),
    (["sh", "-c", "false && sleep 2"], 0, 1),
    (["sh", "-c", "exit 1; sleep 9"], 0, 1),
    (["sh", "-c", "exec sleep 1"], 1, 0),
    (["echo", "hello"], 0, 0),
    (["sh", "-c", "while true; do sleep 1; done"], None, 0),
    (["sh", "-c", "echo 'unfinished"], 0, 2),
    (["sleep", "infinity"], None, 0),
    (["nginx", "-g", "daemon off;"], None, 0),
    ([], None, 0),
]


@pytest.mark.parametrize(("argv", "seconds", "code"), SECONDS, ids=lambda value: str(value))
def test_a_container_ends_as_its_program_does(open_runtime, clock, argv, seconds, code):
    """The program of a container runs as time passes, whether or not anybody looks; what is not known runs
    until stopped.
    """
    runtime = open_runtime()
    sandbox = runtime.run_sandbox(POD)
    program = program_of({"metadata": {}}, {"name": "main", "command": argv})
    container = runtime.start_container(sandbox, "main", "app", program, spec={"command": argv})
    clock.step(600)
    runtime.container_process(sandbox, container).advance()
    lasted = container.ends_at and (container.ends_at - container.started_at).total_seconds()

    assert (lasted, container.exit_code) == (seconds, code)


def test_a_chatty_program_is_bounded(open_runtime, clock):
    """Of an endless log no more is kept than the kubelet's limit."""
    runtime = open_runtime()
    sandbox = runtime.run_sandbox(POD)
    argv = ["sh", "-c", "while true; do echo x; sleep 0.1; done"]
    container = runtime.start_container(sandbox, "main", "app", Program(), spec={"command": argv})
    container_process = runtime.container_process(sandbox, container)
    clock.step(3000)

    assert len(container_process.lines()) <= 20_000
    assert container_process.simulation.dropped > 0


@pytest.mark.parametrize(
    ("annotations", "program"),
    [
        ({"runs-for": "5"}, Program(5.0)),
        ({"exit-code": "3"}, Program(0.0, 3)),
        ({"runs-for": "5", "exit-code": "3"}, Program(5.0, 3)),
        ({"on-sigterm": "ignore"}, Program(stops_after=None)),
        ({"on-sigterm": "2.5"}, Program(stops_after=2.5)),
        ({"runs-for": "5", "runs-for.main": "7"}, Program(7.0)),
        ({"runs-for.other": "7"}, Program()),
    ],
)
def test_annotations_say_how_a_container_ends(annotations, program):
    """For all containers of the pod, or for one by name."""
    pod = {"metadata": {"annotations": {f"kubelet.kubeskew.io/{k}": v for k, v in annotations.items()}}}

    assert program_of(pod, {"name": "main"}) == program
