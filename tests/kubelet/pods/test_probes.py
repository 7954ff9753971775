"""Probes that run a command in a container."""

import pytest
from container_programs import container, container_process, execute

pytestmark = pytest.mark.looptime

READY = {"exec": {"command": ["cat", "/tmp/ready"]}, "periodSeconds": 5}


def _status(status):
    [found] = status.get("containerStatuses") or [{}]
    return found


async def test_readiness_follows_a_file(node):
    """The container is ready as long as the probe's command finds what it looks for."""
    await node.start()
    await node.create(containers=[container("sleep 3600", readinessProbe=READY)])
    await node.until_pod(lambda status: _status(status).get("started"))
    assert not _status((await node.pod())["status"])["ready"]
    await execute(node, "echo > /tmp/ready")
    await node.until_pod(lambda status: _status(status)["ready"])
    await execute(node, "rm /tmp/ready")
    await node.until_pod(lambda status: not _status(status)["ready"])
    assert (
        "Unhealthy",
        "Readiness probe failed: cat: can't open '/tmp/ready': No such file or directory\n",
    ) in [(reason, text) for reason, text in await node.events()]


async def test_a_container_that_fails_its_liveness_probe_is_restarted(node):
    """The example of upstream's documentation: a file that is removed after half a minute."""
    await node.start()
    probe = {"exec": {"command": ["cat", "/tmp/healthy"]}, "initialDelaySeconds": 5, "periodSeconds": 5}
    script = "touch /tmp/healthy; sleep 30; rm -f /tmp/healthy; sleep 600"
    await node.create(containers=[container(script, livenessProbe=probe)])
    await node.running()
    await node.clock.sleep(25)
    assert _status((await node.pod())["status"])["restartCount"] == 0
    await node.until_pod(lambda status: _status(status)["restartCount"] == 1)
    assert ("Killing", "Container main failed liveness probe, will be restarted") in await node.events()


async def test_the_startup_probe_comes_first(node):
    """Until it succeeds the container is neither started nor ready."""
    await node.start()
    startup = {"exec": {"command": ["test", "-f", "/tmp/up"]}, "periodSeconds": 1, "failureThreshold": 30}
    await node.create(containers=[container("sleep 10; touch /tmp/up; sleep 600", startupProbe=startup)])
    await node.until_pod(lambda status: "running" in _status(status).get("state", {}))
    status = _status((await node.pod())["status"])
    assert (status["started"], status["ready"]) == (False, False)
    await node.until_pod(lambda status: _status(status)["started"] and _status(status)["ready"])


async def test_a_pre_stop_hook_runs_before_sigterm(node):
    """The command of a preStop hook sees the container's files and delays the end; SIGTERM follows it."""
    await node.start()
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "sleep 4; echo stopped > /tmp/stop"]}}}
    script = "trap 'cat /tmp/stop; exit 0' TERM; sleep 999 & wait"
    await node.create(containers=[container(script, lifecycle=hook)])
    await node.running()
    looked_into, before = container_process(node), node.clock.now()
    await node.delete()
    await node.until(lambda: not looked_into.running)
    ended = looked_into.container
    assert (ended.exit_code, (ended.ends_at - before).total_seconds()) == (0, pytest.approx(4, abs=0.5))
    assert [line.data for line in looked_into.simulation.lines] == [b"stopped\n"]


async def test_a_post_start_hook_runs_in_the_container(node):
    """The command of a postStart hook sees and changes the container's files."""
    await node.start()
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "echo greeting > /tmp/greeting"]}}}
    script = "while ! test -f /tmp/greeting; do sleep 1; done; cat /tmp/greeting; sleep 3600"
    await node.create(containers=[container(script, lifecycle=hook)])
    await node.running()
    looked_into = container_process(node)
    await node.until(lambda: [line.data for line in looked_into.simulation.lines] == [b"greeting\n"])


async def test_a_post_start_hook_that_fails_ends_its_container(node):
    """The container is killed and started again; the event says nothing of the hook's output."""
    await node.start()
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "sleep 2; echo secret; exit 3"]}}}
    await node.create(containers=[container("sleep 3600", lifecycle=hook)])
    await node.until_pod(lambda status: _status(status).get("restartCount") == 1)
    events = await node.events()
    assert ("FailedPostStartHook", "PostStartHook failed") in events
    assert ("Killing", "FailedPostStartHook") in events
