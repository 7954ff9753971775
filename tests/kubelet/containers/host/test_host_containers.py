"""Containers as processes: their beginning, end, output and surroundings."""

import os
from pathlib import Path

import pytest
from host_node import IMAGE, PYTHON, HostNode, NodeMaker
from until import until

from kubeskew.kubelet.containers.host.shim_client import ShimError
from kubeskew.kubelet.containers.runtime_service import (
    ContainerConfig,
    ContainerResources,
    ContainerRuntimeError,
    ContainerSecurity,
    Device,
    DNSConfig,
    Mount,
)
from kubeskew.kubelet.containers.sandbox import Container


@pytest.fixture(params=["overlay", "copy", "plain"])
async def any_node(request: pytest.FixtureRequest, make_node: NodeMaker) -> HostNode:
    """A node with writable layers over images, one that copies them, and one without namespaces."""
    return await make_node(plain=request.param == "plain", overlay=request.param != "copy")


async def test_a_program_runs_as_it_is_configured(any_node: HostNode, tmp_path: Path):
    """A container has its command, variables, working directory and mounts, and its end is known."""
    (tmp_path / "volume").mkdir()
    (tmp_path / "message").touch()
    sandbox = await any_node.pod()
    container = await any_node.shell(
        sandbox,
        'echo "$GREETING" >/data/out; cat /data/out; echo error >&2; echo bye >/dev/termination-log; exit 3',
        mounts=[
            Mount("/data", tmp_path / "volume"),
            Mount("/dev/termination-log", tmp_path / "message"),
        ],
        env={"GREETING": "hello"},
        working_directory="/work",
    )
    assert await any_node.ended(container) == 3
    lines = any_node.runtime.logs(sandbox, container)
    assert [(line.stream, line.data) for line in lines if line.stream == "stdout"] == [("stdout", b"hello\n")]
    assert [(line.stream, line.data) for line in lines if line.stream == "stderr"] == [("stderr", b"error\n")]
    assert (tmp_path / "volume" / "out").read_text() == "hello\n"
    assert (tmp_path / "message").read_text() == "bye\n"
    assert any_node.changed == ["uid-1"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nothing-here"], 'exec: "nothing-here": executable file not found in $PATH'),
        (["/nothing/here"], 'exec: "/nothing/here": stat /nothing/here: no such file or directory'),
        (["/etc/hosts"], 'exec: "/etc/hosts": permission denied'),
        (["/etc"], 'exec: "/etc": is a directory'),
    ],
)
async def test_programs_that_cannot_start(node: HostNode, words: list[str], why: str):
    """A program that cannot be started gives an ended attempt, with the text of containerd and runc."""
    container = await node.start(await node.pod(), *words)
    assert (container.exit_code, container.reason) == (128, "StartError")
    assert container.message == (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
        f"runc create failed: unable to start container process: {why}: unknown"
    )


async def test_a_program_for_another_machine(node: HostNode, tmp_path: Path):
    """A file that the kernel cannot execute ends at once, with the reason in its log."""
    (tmp_path / "program").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "program").chmod(0o755)
    sandbox = await node.pod()
    container = await node.start(sandbox, "/program", mounts=[Mount("/program", tmp_path / "program")])
    assert await node.ended(container) == 255
    assert node.log(sandbox, container) == "exec /program: exec format error\n"


async def test_signals(any_node: HostNode):
    """A container is sent its stop signal, and is killed when it still runs after the grace period."""
    sandbox = await any_node.pod()
    cases = [
        ("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done", {}, 60.0, 7),
        ("trap 'exit 8' USR1; echo ready; while :; do sleep 0.01; done", {"stop_signal": "SIGUSR1"}, 60.0, 8),
        ("trap '' TERM; echo ready; while :; do sleep 1; done", {}, 0.05, 137),
    ]
    for script, options, grace, code in cases:
        container = await any_node.shell(sandbox, script, **options)
        await any_node.says(sandbox, container, "ready")
        any_node.runtime.stop_container(sandbox, container, grace)
        assert await any_node.ended(container) == code


async def test_a_second_stop_brings_the_end_forward(node: HostNode):
    """A container that ignores its signal is killed at the earliest end of all grace periods."""
    sandbox = await node.pod()
    container = await node.shell(sandbox, "trap '' TERM; echo ready; while :; do sleep 1; done")
    await node.says(sandbox, container, "ready")
    node.runtime.stop_container(sandbox, container, 600)
    node.runtime.stop_container(sandbox, container, 0)
    assert await node.ended(container) == 137


async def test_what_a_container_leaves_behind_ends_with_it(any_node: HostNode):
    """No process of a container outlives its first one, in a session of its own or not."""
    sandbox = await any_node.pod()
    script = "setsid sleep 1234 >/dev/null 2>&1 </dev/null & sleep 1234 >/dev/null 2>&1 & echo ready"
    container = await any_node.shell(sandbox, script)
    assert await any_node.ended(container) == 0
    assert sleeping("1234") == []


def sleeping(seconds: str) -> list[str]:
    """The processes `sleep SECONDS` of this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().split(b"\0")[:2] == [b"sleep", seconds.encode()]:
                found.append(path.parent.name)
        except OSError:
            continue
    return found


async def test_the_sandbox_s_names(node: HostNode):
    """A pod's containers have its host name, the files that containerd writes, and see no other process."""
    sandbox = await node.pod(dns=DNSConfig(["10.96.0.10"], ["default.svc.cluster.local"], ["ndots:5"]))
    script = "hostname; cat /etc/hostname /etc/resolv.conf; echo $$; echo /proc/[0-9]*"
    lines = (await node.output(sandbox, script)).splitlines()
    assert lines[:5] == [
        "pod-uid-1",
        "pod-uid-1",
        "search default.svc.cluster.local",
        "nameserver 10.96.0.10",
        "options ndots:5",
    ]
    assert lines[5:] == ["1", "/proc/1"]
    hosts = await node.output(sandbox, "cat /etc/hosts")
    assert f"{sandbox.ip}\tpod-uid-1" in hosts


async def test_a_shared_process_namespace(node: HostNode):
    """Containers of a pod with a shared process namespace see each other; a stop ends all of one."""
    sandbox = await node.pod(shares_pid=True)
    script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    other = await node.shell(sandbox, script, name="other")
    await node.says(sandbox, other, "ready")
    output = await node.output(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'")
    assert "echo ready" in output
    node.runtime.stop_container(sandbox, other, 60)
    assert await node.ended(other) == 0


async def test_the_root_is_the_containers_own(any_node: HostNode):
    """Files that a container writes into its root neither change the image nor are seen by another."""
    sandbox = await any_node.pod()
    await any_node.output(sandbox, 'echo mine >"${HOME%/}/file"', env={"HOME": "/"})
    assert (
        await any_node.output(sandbox, 'cat "${HOME%/}/file" 2>/dev/null || echo none', env={"HOME": "/"})
        == "none\n"
    )
    assert [path.name for path in (any_node.directory / "root").rglob("file")] == []


async def test_read_only(node: HostNode, tmp_path: Path):
    """Neither a read-only root nor a read-only mount can be written."""
    (tmp_path / "volume").mkdir()
    output = await node.output(
        await node.pod(),
        "for place in / /data /proc/sys/kernel; do touch $place/file 2>&1 || echo refused; done; "
        "touch /dev/shm/file && echo done",
        mounts=[Mount("/data", tmp_path / "volume", read_only=True)],
        security=ContainerSecurity(read_only_root=True),
    )
    assert output.count("refused") == 3
    assert output.endswith("done\n")
    assert [*(tmp_path / "volume").iterdir()] == []


async def test_links_of_an_image_lead_nowhere(node: HostNode, tmp_path: Path):
    """Mounts are made within the root, whatever links the image has at their paths, or are refused."""
    outside, volume, root = tmp_path / "outside", tmp_path / "volume", node.directory / "root"
    outside.mkdir()
    volume.mkdir()
    (root / "there").mkdir()
    (root / "link").symlink_to("/there")
    (root / "upwards").symlink_to("../../../../there")
    (root / "away").symlink_to(outside)
    sandbox = await node.pod()
    mounts = [Mount("/link/a", volume), Mount("/upwards/b", volume)]
    output = await node.output(sandbox, "touch /there/a/one /there/b/two && echo done", mounts=mounts)
    assert output == "done\n"
    assert sorted(path.name for path in volume.iterdir()) == ["one", "two"]
    refused = await node.shell(sandbox, "true", mounts=[Mount("/away/c", volume)])
    assert f'error mounting "{volume}" to rootfs at "/away/c": not a directory' in refused.message
    assert [*outside.iterdir()] == []


async def test_devices(node: HostNode):
    """A container has the usual devices and those that were asked for, and no others."""
    sandbox = await node.pod()
    script = "head -c 4 /dev/zero | wc -c; head -c 4 /dev/given | wc -c; ls /dev/mem 2>/dev/null >/dev/null"
    output = await node.output(sandbox, script, devices=[Device("/dev/given", "/dev/zero", "r")])
    assert output.split() == ["4", "4"]
    refused = await node.shell(sandbox, "true", devices=[Device("/dev/given", "/dev/nothing", "r")])
    assert "no such file or directory" in refused.message


async def test_users(node: HostNode):
    """A container runs as the user and group of its security context; only root has capabilities."""
    output = await node.output(
        await node.pod(),
        "id -u; id -g; grep CapEff /proc/self/status",
        security=ContainerSecurity(run_as_user=1234, run_as_group=2345),
    )
    assert output.split() == ["1234", "2345", "CapEff:", "0000000000000000"]


@pytest.mark.parametrize(
    ("security", "effective", "privileges"),
    [
        (ContainerSecurity(), "a80425fb", "0"),
        (ContainerSecurity(dropped_capabilities=["ALL"], no_new_privileges=True), "0", "1"),
        (
            ContainerSecurity(dropped_capabilities=["ALL"], added_capabilities=["CHOWN", "CAP_KILL"]),
            "21",
            "0",
        ),
        (ContainerSecurity(dropped_capabilities=["MKNOD"]), "a00425fb", "0"),
    ],
)
async def test_capabilities(node: HostNode, security: ContainerSecurity, effective: str, privileges: str):
    """Root has containerd's default capabilities, with those added and without those dropped."""
    script = "grep -e CapEff -e CapBnd -e NoNewPrivs /proc/self/status"
    output = await node.output(await node.pod(), script, security=security)
    fields = dict(line.split(":\t") for line in output.splitlines())
    assert fields["CapEff"].lstrip("0") == effective.lstrip("0")
    assert fields["CapBnd"] == fields["CapEff"]
    assert fields["NoNewPrivs"] == privileges


async def test_unknown_capabilities_and_images(node: HostNode):
    """A container that cannot be created is refused before anything runs."""
    sandbox = await node.pod()
    with pytest.raises(ContainerRuntimeError, match='unknown capability "CAP_NONE"'):
        await node.shell(sandbox, "true", security=ContainerSecurity(added_capabilities=["NONE"]))
    with pytest.raises(ContainerRuntimeError, match="not found"):
        await node.runtime.start_container(sandbox, ContainerConfig("main", "absent", ["true"]))
    with pytest.raises(ContainerRuntimeError, match="no command specified"):
        await node.runtime.start_container(sandbox, ContainerConfig("main", IMAGE))
    assert sandbox.containers == []


async def test_without_namespaces_some_things_cannot_be_had(make_node: NodeMaker):
    """The runtime without namespaces refuses a container that needs them, and says what for."""
    node = await make_node(plain=True)
    sandbox = await node.pod()
    security = ContainerSecurity(read_only_root=True, run_as_user=4321)
    with pytest.raises(
        ContainerRuntimeError, match=r"user 4321, a root file system that is read-only: not with"
    ):
        await node.shell(sandbox, "true", security=security)


async def test_attempts(node: HostNode):
    """Each start is an attempt of its own, with its own log; the last dead one is kept."""
    sandbox = await node.pod()
    containers: list[Container] = []
    for number in range(3):
        containers.append(await node.shell(sandbox, f"echo attempt {number}"))
        await node.ended(containers[-1])
    assert [container.attempt for container in sandbox.containers] == [1, 2]
    assert [node.log(sandbox, container) for container in containers] == ["", "attempt 1\n", "attempt 2\n"]


async def test_ports(node: HostNode):
    """A port of a pod can be dialled from outside of its network, and one that nobody listens at refuses."""
    sandbox = await node.pod()
    server = (
        "import socket; s = socket.create_server(('127.0.0.1', 80)); print('ready', flush=True); "
        "c, _ = s.accept(); c.sendall(c.recv(99).upper())"
    )
    container = await node.start(sandbox, PYTHON, "-c", server)
    await node.says(sandbox, container, "ready")
    connection = await node.runtime.dial(sandbox, 80)
    await connection.write(b"hello")
    assert await connection.read() == b"HELLO"
    await connection.close()
    with pytest.raises(
        ConnectionRefusedError, match=f"dial tcp {sandbox.ip}:81: connect: connection refused"
    ):
        await node.runtime.dial(sandbox, 81)


async def test_stats(node: HostNode):
    """The use of a running container is that of its processes."""
    sandbox = await node.pod()
    container = await node.shell(sandbox, "head -c 10000 /dev/zero >/file; echo ready; sleep 100 & wait")
    await node.says(sandbox, container, "ready")
    found = node.runtime.stats(sandbox, container)
    assert found.processes == 2
    assert found.working_set > 0
    await until(lambda: node.runtime.stats(sandbox, container).written >= 10_000)


async def test_own_cgroups(node: HostNode):
    """A container reads its own limits below /sys/fs/cgroup, and cannot write them."""
    if "memory" not in node.runtime.limits_hold:
        pytest.skip("needs a writable cgroup for memory: without one `up` says that limits do not hold")
    output = await node.output(
        await node.pod(),
        "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes memory.max 2>/dev/null;"
        " mkdir new memory/new 2>/dev/null || echo read-only",
        resources=ContainerResources(memory_bytes=32 << 20),
    )
    assert output == f"{32 << 20}\nread-only\n"


async def test_memory_limits(node: HostNode):
    """A container that uses more memory than its limit is killed, and its end says why."""
    if "memory" not in node.runtime.limits_hold:
        pytest.skip("needs a writable cgroup for memory: without one `up` says that limits do not hold")
    sandbox = await node.pod()
    resources = ContainerResources(memory_bytes=32 << 20)
    container = await node.start(sandbox, PYTHON, "-c", "b'x' * (1 << 28)", resources=resources)
    assert await node.ended(container) == 137
    assert container.reason == "OOMKilled"


async def test_the_node_s_network(node: HostNode):
    """A pod in the host's network has the machine's network and the node's name."""
    sandbox = await node.pod(host_network=True)
    network = os.readlink("/proc/self/ns/net")  # noqa: PTH115 - in an async function
    output = await node.output(sandbox, "hostname; readlink /proc/self/ns/net")
    assert output.split() == ["pod-uid-1", network]


async def test_files_are_as_many_as_may_be(node: HostNode):
    """The limit of open files is the machine's, for containers and for what holds their pipes."""
    soft, hard = (await node.output(await node.pod(), "ulimit -Sn; ulimit -Hn")).split()
    assert soft == hard


async def test_a_request_that_fails_is_answered(node: HostNode):
    """A request that is not well formed is answered, and containers go on."""
    sandbox = await node.pod()
    container = await node.shell(sandbox, "exec sleep 1000")
    for method in ("nothing", "dial", "start", "sandbox"):
        with pytest.raises(ShimError):
            await node.runtime._client().call(method, sandbox=sandbox.id)
    assert container.ends_at is None
    assert (await node.runtime.exec_sync(sandbox, container, ["true"], 60)).exit_code == 0


async def test_a_kubelet_rotates_a_log(make_node: NodeMaker, tmp_path: Path):
    """Output goes to the file that was renamed until the log is reopened, and to a new one from then on."""
    node = await make_node(rotates_logs=False)
    sandbox = await node.pod()
    script = "echo one; until [ -e /told/go ]; do sleep 0.05; done; echo two"
    container = await node.shell(sandbox, script, mounts=[Mount("/told", tmp_path)])
    await node.says(sandbox, container, "one")
    path = node.directory / "logs" / "uid-1" / "main" / "0.log"
    renamed = path.rename(path.with_name("0.log.20260102-030405"))
    await node.runtime.reopen_log(sandbox, container)
    (tmp_path / "go").touch()
    assert await node.ended(container) == 0
    assert node.log(sandbox, container) == "two\n"
    assert renamed.read_text().endswith(" stdout F one\n")
    with pytest.raises(ContainerRuntimeError, match="is not running"):
        await node.runtime.reopen_log(sandbox, container)


async def test_a_pod_goes(node: HostNode):
    """A stopped sandbox has no running container; a removed one is forgotten with its files."""
    sandbox = await node.pod()
    container = await node.shell(sandbox, "sleep 1000")
    await node.runtime.stop_pod_sandbox(sandbox)
    assert (container.exit_code, sandbox.ready) == (137, False)
    await node.runtime.remove_pod_sandbox("uid-1")
    assert node.runtime.sandboxes() == []
