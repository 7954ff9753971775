"""Programs of containers: they run as time passes, on files that others see, and go on after a restart."""

import pytest
from container_programs import container, container_process, execute

pytestmark = pytest.mark.looptime


SHARED = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
VOLUMES = [{"name": "shared", "emptyDir": {}}]


async def test_a_command_sees_what_the_program_wrote(node):
    """The files are there though nobody has read the log."""
    await node.start()
    await node.create(containers=[container("echo x > /tmp/a && sleep 3600")])
    await node.running()
    assert await execute(node, "cat /tmp/a") == (0, "x\n")


async def test_init_containers_leave_files_for_the_next(node):
    """The main container, and a command in it, see the files that an init container wrote to an emptyDir."""
    await node.start()
    await node.create(
        initContainers=[container("sleep 2; hostname > /shared/from-init", "first", **SHARED)],
        containers=[container("cat /shared/from-init || exit 9; sleep 100", **SHARED)],
        volumes=VOLUMES,
    )
    await node.running()
    assert await execute(node, "cat /shared/from-init") == (0, "pod-1\n")
    assert [line.data for line in container_process(node).lines()] == [b"pod-1\n"]


async def test_containers_of_a_pod_meet_in_a_volume(node):
    """One waits for a file that the other writes later, and ends when it is there."""
    await node.start()
    await node.create(
        containers=[
            container("until [ -f /shared/go ]; do sleep 1; done; cat /shared/go; exit 3", **SHARED),
            container("sleep 5; echo now > /shared/go; sleep 100", "writer", **SHARED),
        ],
        volumes=VOLUMES,
        restartPolicy="Never",
    )
    pod = await node.until_pod(lambda status: _ended(status, "main"))
    ended = _ended(pod["status"], "main")
    assert (ended["exitCode"], ended["reason"]) == (3, "Error")


def _ended(status, name):
    states = {one["name"]: one["state"] for one in status.get("containerStatuses") or []}
    return states.get(name, {}).get("terminated")


async def test_a_program_reacts_to_what_a_command_wrote(node):
    """A file that `kubectl exec` makes ends the program that waits for it."""
    await node.start()
    script = "while ! [ -e /tmp/stop ]; do sleep 1; done; exit 4"
    await node.create(containers=[container(script)], restartPolicy="Never")
    await node.running()
    await node.clock.sleep(7)
    await execute(node, "touch /tmp/stop")
    pod = await node.until_pod(lambda status: _ended(status, "main"))
    assert _ended(pod["status"], "main")["exitCode"] == 4


async def test_files_outlive_the_kubelet(node):
    """After a restart all is as it was: what the program wrote, once, and what a command wrote since."""
    await node.start()
    script = "echo begun >> /shared/log; sleep 20; cat /shared/more >> /shared/log; sleep 1000"
    await node.create(containers=[container(script, **SHARED)], volumes=VOLUMES)
    await node.running()
    await node.clock.sleep(10)
    await execute(node, "echo more > /shared/more; echo own > /tmp/own")
    await node.kill()
    await node.clock.sleep(20)
    await node.start()
    assert await execute(node, "cat /shared/log /tmp/own") == (0, "begun\nmore\nown\n")


async def test_a_program_that_ended_while_no_kubelet_ran(node):
    """The end of a program while no kubelet ran is reported as of when it was, with the exit code."""
    await node.start()
    pod = await node.create(containers=[container("sleep 30; exit 5")], restartPolicy="Never")
    await node.running()
    await node.kill()
    await node.clock.sleep(100)
    await node.start()
    pod = await node.until_pod(lambda status: _ended(status, "main"))
    ended = _ended(pod["status"], "main")
    assert ended["exitCode"] == 5
    assert pod["status"]["phase"] == "Failed"


@pytest.mark.parametrize(
    ("script", "code", "seconds"),
    [
        ("trap 'exit 0' TERM; sleep 9999 & wait", 0, 0),
        ("trap 'echo bye; exit 7' TERM; sleep 9999 & wait", 7, 0),
        ("trap 'sleep 3; exit 1' TERM; sleep 9999 & wait $!", 1, 3),
        ("trap '' TERM; sleep 9999", 137, 30),
        ("trap 'exit 0' TERM; sleep 9999", 137, 30),
        ("trap 'exit 2' TERM; while true; do sleep 10; done", 2, 7),
        ("trap 'echo done' EXIT; sleep 9999", 0, 0),
    ],
)
async def test_a_program_handles_sigterm(node, script, code, seconds):
    """A trap runs when the shell waits or the command in front has ended; SIGKILL ends what does not end."""
    await node.start()
    await node.create(containers=[container(script)])
    await node.running()
    await node.clock.sleep(3)
    looked_into = container_process(node)
    before = node.clock.now()
    await node.delete()
    await node.until(lambda: not looked_into.running)
    ended = looked_into.container
    assert ended.exit_code == code
    assert (ended.ends_at - before).total_seconds() == pytest.approx(seconds, abs=1)


def _restarts(status):
    return sum(one["restartCount"] for one in status.get("containerStatuses") or [])


async def test_a_crashing_program_backs_off(node):
    """A crashing program's exit code is reported, and it is restarted ever later, each time with files of its
    own.
    """
    await node.start()
    await node.create(containers=[container("ls /tmp; touch /tmp/x; exit 3")])
    pod = await node.until_pod(lambda status: _restarts(status) == 2)
    [status] = pod["status"]["containerStatuses"]
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert container_process(node).lines() == []


async def test_the_sides_of_a_pipe_run_at_once(node):
    """One side of a pipe reads lines before the other side has ended."""
    await node.start()
    await node.create(containers=[container("while true; do echo tick; sleep 1; done | tee /tmp/log")])
    await node.running()
    await node.clock.sleep(3.5)
    code, text = await execute(
        node, "cat /tmp/log; while true; do echo y; done | head -n 2; (sleep 1; echo late) & wait; echo $!"
    )
    assert (code, text.split()[:3]) == (0, ["tick"] * 3)
    assert text.endswith("y\ny\nlate\n103\n")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["foo", "x"], 'exec: "foo": executable file not found in $PATH: unknown'),
        (["/opt/foo"], 'exec: "/opt/foo": stat /opt/foo: no such file or directory: unknown'),
    ],
)
async def test_a_program_that_the_image_lacks_cannot_be_started(node, command, why):
    """In a distribution's image it is a StartError with 128; elsewhere it is taken to be in the image."""
    await node.start()
    await node.create(containers=[container("") | {"command": command}], restartPolicy="Never")
    pod = await node.until_pod(lambda status: _ended(status, "main"))
    ended = _ended(pod["status"], "main")
    assert (ended["reason"], ended["exitCode"], ended["startedAt"]) == (
        "StartError",
        128,
        "1970-01-01T00:00:00Z",
    )
    assert ended["message"].endswith(f"unable to start container process: {why}")
    assert pod["status"]["phase"] == "Failed"


async def test_a_program_that_the_image_lacks_is_tried_again(node):
    """A program that the image lacks is tried ever later, as any container that crashes."""
    await node.start()
    await node.create(containers=[container("") | {"command": ["foo"]}])
    pod = await node.until_pod(lambda status: _restarts(status) == 2)
    [status] = pod["status"]["containerStatuses"]
    assert status["lastState"]["terminated"]["reason"] == "StartError"


async def test_a_script_names_what_is_not_there(node):
    """A shell goes on after a command that is not found, whose code is 127."""
    await node.start()
    await node.create(containers=[container("foo; echo $?; sleep 100")])
    await node.running()
    assert [line.data for line in container_process(node).lines()] == [b"sh: foo: not found\n", b"127\n"]
