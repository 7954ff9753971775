"""Probes and hooks of containers, through the interface of the runtime."""

import pytest
from scripted_runtime import ScriptedConnection, ScriptedRuntime

from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError
from kubeskew.kubelet.protocols.grpc_health import check_health

pytestmark = pytest.mark.looptime

READY = {"exec": {"command": ["ready"]}, "periodSeconds": 5}


@pytest.fixture
async def scripted(node, monkeypatch):
    """A node with a scripted runtime, which it has from its start on."""
    monkeypatch.setattr("kubeskew.kubelet.runtimes.SimulatedRuntime", ScriptedRuntime)
    await node.start()
    return node


def runtime_of(node):
    return node.agent._runtime


def container(**more):
    return {"name": "main", "image": "app", **more}


def _status(status):
    [found] = status.get("containerStatuses") or [{}]
    return found


async def test_readiness_follows_a_command(scripted):
    """The container is ready as long as the probe's command succeeds."""
    runtime_of(scripted).codes["ready"] = 1
    await scripted.create(containers=[container(readinessProbe=READY)])
    await scripted.until_pod(lambda status: _status(status).get("started"))
    assert not _status((await scripted.pod())["status"])["ready"]
    runtime_of(scripted).codes["ready"] = 0
    await scripted.until_pod(lambda status: _status(status)["ready"])
    runtime_of(scripted).codes["ready"] = 1
    await scripted.until_pod(lambda status: not _status(status)["ready"])
    assert ("Unhealthy", "Readiness probe failed: no\n") in await scripted.events()


async def test_a_container_that_fails_its_liveness_probe_is_restarted(scripted):
    """After as many failures as the threshold says it is stopped, and started again."""
    runtime_of(scripted).codes["ready"] = 0
    await scripted.create(containers=[container(livenessProbe=READY)])
    await scripted.running()
    await scripted.clock.sleep(25)
    assert _status((await scripted.pod())["status"])["restartCount"] == 0
    runtime_of(scripted).codes["ready"] = 1
    await scripted.until_pod(lambda status: _status(status)["restartCount"] == 1)
    assert ("Killing", "Container main failed liveness probe, will be restarted") in await scripted.events()
    uid = (await scripted.pod())["metadata"]["uid"]
    counts = scripted.agent._probes.of(uid)  # the restart does not begin them again
    assert counts["main", "liveness", "failed"] >= 3
    assert counts["main", "liveness", "successful"] >= 5


async def test_the_startup_probe_comes_first(scripted):
    """Until it succeeds the container is neither started nor ready."""
    runtime_of(scripted).codes["ready"] = 1
    await scripted.create(containers=[container(startupProbe=READY | {"failureThreshold": 30})])
    await scripted.until_pod(lambda status: "running" in _status(status).get("state", {}))
    status = _status((await scripted.pod())["status"])
    assert (status["started"], status["ready"]) == (False, False)
    runtime_of(scripted).codes["ready"] = 0
    await scripted.until_pod(lambda status: _status(status)["started"] and _status(status)["ready"])


async def test_a_command_that_takes_too_long_fails_its_probe(scripted):
    """The event has upstream's text, with the command and its limit."""
    probe = {"exec": {"command": ["sleep", "3"]}, "timeoutSeconds": 2}
    await scripted.create(containers=[container(readinessProbe=probe)])
    await scripted.running()
    await scripted.clock.sleep(5)
    text = 'Readiness probe failed: command timed out: "sleep 3" timed out after 2s'
    assert ("Unhealthy", text) in await scripted.events()


def http(status, **headers):
    lines = "".join(f"{name}: {value}\r\n" for name, value in {"Content-Length": "0", **headers}.items())
    return f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode()


def frames(*kinds_and_payloads):
    """HTTP/2 frames of stream 1, of which the last ends it."""
    found = b"\0\0\0\4\0\0\0\0\0"
    for number, (kind, payload) in enumerate(kinds_and_payloads):
        flags = 1 if number + 1 == len(kinds_and_payloads) else 0
        found += len(payload).to_bytes(3) + bytes([kind, flags, 0, 0, 0, 1]) + payload
    return found


def grpc(status):
    return frames((1, b"\x88"), (0, b"\0\0\0\0\2\x08" + bytes([status])), (1, b""))


GET = {"httpGet": {"port": "web", "path": "/x"}}
UNIMPLEMENTED = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
REFUSED = "connect: connection refused"


@pytest.mark.parametrize(
    ("probe", "answer", "text"),
    [
        (GET, http(204), None),
        (GET, http(302, Location="http://elsewhere/"), None),
        (GET, http(500), "HTTP probe failed with statuscode: 500"),
        (GET, b"what?\r\n\r\n", 'Get "http://IP:80/x": malformed HTTP response "what?"'),
        (GET, None, f'Get "http://IP:80/x": dial tcp IP:80: {REFUSED}'),
        ({"tcpSocket": {"port": 80}}, b"", None),
        ({"tcpSocket": {"port": 80}}, None, f"dial tcp IP:80: {REFUSED}"),
        ({"grpc": {"port": 80}}, grpc(1), None),
        ({"grpc": {"port": 80}}, grpc(2), 'service unhealthy (responded with "NOT_SERVING")'),
        (
            {"grpc": {"port": 80, "service": "s"}},
            frames((1, b"\x88")),
            f"{UNIMPLEMENTED}unknown service grpc.health.v1.Health",
        ),
        (
            {"grpc": {"port": 80}},
            None,
            'timeout: failed to connect service "IP:80" within 1s: context deadline exceeded',
        ),
    ],
)
async def test_probes_over_the_network(scripted, probe, answer, text):
    """Each kind of probe connects to the pod's port, and judges as upstream's does, in its words."""
    runtime = runtime_of(scripted)
    if answer is not None:
        runtime.ports[80] = lambda _written: answer
    ports = [{"name": "web", "containerPort": 80}]
    await scripted.create(containers=[container(readinessProbe=probe, ports=ports)])
    await scripted.running()
    await scripted.clock.sleep(5)
    pod = await scripted.pod()
    assert _status(pod["status"])["ready"] == (text is None)
    events = [message for reason, message in await scripted.events() if reason == "Unhealthy"]
    shown = None if text is None else text.replace("IP", pod["status"]["podIP"])
    assert events == ([] if shown is None else [f"Readiness probe failed: {shown}"])


async def test_what_a_probe_asks_for(scripted):
    """A request of HTTP has upstream's headers, and those of the probe."""
    asked = []
    runtime_of(scripted).ports[80] = lambda written: asked.append(written) or http(200)
    get = {
        "port": 80,
        "path": "x?y",
        "httpHeaders": [{"name": "Host", "value": "h"}, {"name": "A", "value": "b"}],
    }
    await scripted.create(containers=[container(readinessProbe={"httpGet": get})])
    await scripted.until_pod(lambda status: _status(status).get("ready"))
    assert asked[0].decode().split("\r\n") == [
        "GET /x?y HTTP/1.1", "Host: h", "A: b", "User-Agent: kube-probe/1.36", "Accept: */*",
        "Connection: close", "", "",
    ]  # fmt: skip


async def test_probes_of_acted_containers_succeed(node):
    """A probe over the network and an unknown command succeed after their delay where nothing runs."""
    await node.start()
    probes = {"readinessProbe": GET | {"initialDelaySeconds": 7}, "livenessProbe": READY}
    await node.create(containers=[container(**probes)])
    before = node.clock.now()
    await node.until_pod(lambda status: _status(status).get("ready"))
    assert (node.clock.now() - before).total_seconds() == pytest.approx(7, abs=0.5)
    assert "Unhealthy" not in [reason for reason, _ in await node.events()]


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("http://:99999/", "Port out of range 0-65535"),
        ("http://[", "Invalid IPv6 URL"),
        ("http://elsewhere/", None),
    ],
)
async def test_an_answer_that_cannot_be_read_does_not_end_the_probes(scripted, location, text):
    """A container cannot switch its liveness probe off by what it answers."""
    answers = [http(302, Location=location)]
    runtime_of(scripted).ports[80] = lambda _written: answers[0]
    probe = {"httpGet": {"port": 80}, "periodSeconds": 5}
    await scripted.create(containers=[container(livenessProbe=probe)])
    await scripted.running()
    await scripted.clock.sleep(3)
    events = [message for _, message in await scripted.events() if "probe" in message]
    if text is None:
        assert events == ["Liveness probe warning: Probe terminated redirects, Response body: "]
    else:
        assert [text in message for message in events] == [True]
    answers[0] = http(500)
    await scripted.until_pod(lambda status: _status(status)["restartCount"] == 1)


@pytest.mark.parametrize("length", [1, 200, 300])
async def test_the_name_of_a_grpc_service_may_be_long(length):
    """Its length is a varint, which has two bytes from 128 on."""
    written = []
    connection = ScriptedConnection(lambda data: written.append(data) or grpc(1))
    assert await check_health(connection, "h:80", "s" * length, "agent") == (True, "service healthy")
    size = bytes([length]) if length < 128 else bytes([length % 128 | 128, length // 128])
    message = b"\x0a" + size + b"s" * length
    assert written[0].endswith(b"\0" + len(message).to_bytes(4) + message)


@pytest.mark.parametrize("error", [ContainerRuntimeError("gone"), RuntimeError("gone")])
async def test_a_probe_that_cannot_be_made_does_not_count(scripted, error):
    """No threshold is reached by errors: the container stays ready and is not restarted."""
    runtime_of(scripted).codes["ready"] = 0
    await scripted.create(containers=[container(readinessProbe=READY, livenessProbe=READY)])
    await scripted.until_pod(lambda status: _status(status).get("ready"))
    runtime_of(scripted).exec_error = error
    await scripted.clock.sleep(60)
    status = _status((await scripted.pod())["status"])
    assert (status["ready"], status["restartCount"]) == (True, 0)
    text = "Liveness probe errored and resulted in unknown state: "
    assert any(message.startswith(text) for _, message in await scripted.events())
    runtime_of(scripted).exec_error = None
    runtime_of(scripted).codes["ready"] = 1
    await scripted.until_pod(lambda status: _status(status)["restartCount"] == 1)


async def test_a_named_port_that_there_is_not(scripted):
    """The event has the text of upstream's last attempt, which takes the name for a number."""
    await scripted.create(containers=[container(readinessProbe={"httpGet": {"port": "web"}})])
    await scripted.running()
    await scripted.clock.sleep(3)
    text = 'strconv.Atoi: parsing "web": invalid syntax'
    message = f"Readiness probe errored and resulted in unknown state: {text}"
    assert ("Unhealthy", message) in await scripted.events()


async def test_a_pre_stop_hook_that_raises_has_failed(scripted):
    """Its container gets its signal, and the pod goes."""
    hook = {"preStop": {"exec": {"command": ["stop"]}}}
    await scripted.create(containers=[container(lifecycle=hook)])
    await scripted.running()
    runtime_of(scripted).exec_error = RuntimeError("broken")
    await scripted.delete()
    await scripted.gone()
    assert ("FailedPreStopHook", "PreStopHook failed") in await scripted.events()


async def test_a_pre_stop_hook_that_hangs_ends_with_the_grace_period(scripted, monkeypatch):
    """Its container gets its signal then, however long the call of the runtime takes."""

    async def hangs(*_):
        await scripted.clock.sleep(3600)

    hook = {"preStop": {"exec": {"command": ["stop"]}}}
    await scripted.create(containers=[container(lifecycle=hook)], terminationGracePeriodSeconds=10)
    await scripted.running()
    monkeypatch.setattr(runtime_of(scripted), "exec_sync", hangs)
    began = scripted.clock.monotonic()
    await scripted.delete()
    await scripted.gone()
    assert 10 <= scripted.clock.monotonic() - began < 20


async def test_a_sandbox_that_cannot_be_removed_is_tried_again(scripted, monkeypatch):
    """The runtime's records of a pod go with the next collection."""
    runtime = runtime_of(scripted)
    remove, tries = runtime.remove_pod_sandbox, []

    async def refuse_once(uid):
        tries.append(scripted.clock.monotonic())
        if len(tries) == 1:
            raise ContainerRuntimeError("busy")
        await remove(uid)

    await scripted.create(containers=[container()])
    await scripted.running()
    monkeypatch.setattr(runtime, "remove_pod_sandbox", refuse_once)
    await scripted.delete()
    await scripted.gone()
    await scripted.until(lambda: not runtime.sandboxes())
    assert tries[1] - tries[0] == pytest.approx(60, abs=1)


@pytest.mark.parametrize(
    ("hook", "version", "gates", "seconds", "fails"),
    [
        ({"tcpSocket": {"port": 80}}, "1.36", "", 0, True),
        ({"sleep": {"seconds": 5}}, "1.28", "", 0, True),
        ({"sleep": {"seconds": 5}}, "1.29", "", 0, False),
        ({"sleep": {"seconds": 5}}, "1.29", "PodLifecycleSleepAction=true", 5, False),
        ({"sleep": {"seconds": 5}}, "1.37", "", 5, False),
    ],
)
async def test_a_hook_that_the_kubelet_does_not_know(node, hook, version, gates, seconds, fails):
    """A hook of a kind that the release lacks is invalid; one whose gate is off does nothing."""
    await node.start(version, gates)
    node.server.version = Version.parse("1.36")  # it has the field
    await node.create(containers=[container(lifecycle={"preStop": hook})])
    await node.running()
    [sandbox] = runtime_of(node).sandboxes()
    ended, before = sandbox.latest("main"), node.clock.now()
    await node.delete(grace_period=30)
    await node.until(lambda: not ended.running(node.clock.now()))
    assert (ended.ends_at - before).total_seconds() == pytest.approx(seconds, abs=0.5)
    await node.clock.sleep(1)
    assert (("FailedPreStopHook", "PreStopHook failed") in await node.events()) == fails


async def test_a_hook_of_https_falls_back_to_http(scripted):
    """A server without TLS is asked again in HTTP, and an event says so."""
    asked = []
    runtime_of(scripted).ports[80] = lambda written: asked.append(written) or http(204)
    hook = {"preStop": {"httpGet": {"port": 80, "path": "/stop", "scheme": "HTTPS"}}}
    await scripted.create(containers=[container(lifecycle=hook)])
    await scripted.running()
    address = (await scripted.pod())["status"]["podIP"]
    await scripted.delete()
    await scripted.gone()
    assert asked[-1].startswith(b"GET /stop HTTP/1.1\r\n")
    text = f"request to HTTPS lifecycle hook {address}:80 got HTTP response, retry with HTTP succeeded"
    events = await scripted.events()
    assert ("LifecycleHTTPFallback", text) in events
    assert "FailedPreStopHook" not in [reason for reason, _ in events]


async def test_the_hooks_of_a_killed_kubelet_end(scripted):
    """A kubelet that was killed in the midst of a preStop hook signals no container afterwards."""
    hook = {"preStop": {"sleep": {"seconds": 20}}}
    await scripted.create(containers=[container(lifecycle=hook)])
    await scripted.running()
    signalled = []
    runtime_of(scripted).stop_container = lambda *given: signalled.append(given)
    await scripted.delete(grace_period=30)
    await scripted.clock.sleep(2)
    await scripted.kill()
    await scripted.clock.sleep(25)
    assert signalled == []


@pytest.mark.parametrize(
    ("hook", "again", "seconds", "code", "event"),
    [
        ({"exec": {"command": ["sleep", "4"]}}, None, 4, 0, False),
        ({"exec": {"command": ["sh", "-c", "sleep 4; exit 1"]}}, None, 4, 0, True),
        ({"sleep": {"seconds": 5}}, None, 5, 0, False),
        ({"sleep": {"seconds": 50}}, None, 30, 0, False),
        ({"exec": {"command": ["sleep", "50"]}}, None, 30, 0, True),
        ({"httpGet": {"port": 80}}, None, 0, 0, False),
        ({"sleep": {"seconds": 50}}, 3, 2, 0, False),
    ],
)
async def test_a_pre_stop_hook_runs_before_sigterm(node, hook, again, seconds, code, event):
    """SIGTERM follows the hook, or the end of the grace period; a failure is reported without its output."""
    await node.start()
    await node.create(containers=[container(lifecycle={"preStop": hook})])
    await node.running()
    [sandbox] = runtime_of(node).sandboxes()
    ended, before = sandbox.latest("main"), node.clock.now()
    await node.delete(grace_period=30)
    if again is not None:  # a second DELETE, two seconds later
        await node.clock.sleep(2)
        await node.delete(grace_period=again)
    await node.until(lambda: not ended.running(node.clock.now()))
    assert ended.exit_code == code
    assert (ended.ends_at - before).total_seconds() == pytest.approx(seconds, abs=0.5)
    await node.clock.sleep(1)
    assert (("FailedPreStopHook", "PreStopHook failed") in await node.events()) == event


async def test_a_pre_stop_hook_is_a_request(scripted):
    """A hook of HTTP asks the pod's port once."""
    asked = []
    runtime_of(scripted).ports[80] = lambda written: asked.append(written) or http(500)
    hook = {"preStop": {"httpGet": {"port": 80, "path": "/stop"}}}
    await scripted.create(containers=[container(lifecycle=hook)])
    await scripted.running()
    await scripted.delete()
    await scripted.gone()
    assert [each.split(b"\r\n")[0] for each in asked] == [b"GET /stop HTTP/1.1"]
    assert b"User-Agent: kube-lifecycle/1.36" in asked[0]
    assert "FailedPreStopHook" not in [reason for reason, _ in await scripted.events()]


async def test_a_post_start_hook_that_fails_ends_its_container(node):
    """The container is killed and started again; the event says nothing of the hook's output."""
    await node.start()
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "sleep 2; echo secret; exit 3"]}}}
    await node.create(containers=[container(lifecycle=hook)])
    await node.until_pod(lambda status: _status(status).get("restartCount") == 1)
    events = await node.events()
    assert ("FailedPostStartHook", "PostStartHook failed") in events
    assert ("Killing", "FailedPostStartHook") in events


async def test_a_container_that_the_runtime_refuses_waits(scripted):
    """The runtime's reason is that of the container, and of an event; it is tried again."""
    runtime_of(scripted).refusal = ContainerRuntimeError("no such device")
    await scripted.create()
    waiting = {"reason": "CreateContainerError", "message": "no such device"}
    await scripted.until_pod(lambda status: _status(status).get("state", {}).get("waiting") == waiting)
    runtime_of(scripted).refusal = None
    await scripted.running()
    assert ("Failed", "Error: no such device") in await scripted.events()


async def test_sandboxes_are_counted(scripted):
    """A pod whose sandbox was lost gets the next attempt of it."""
    await scripted.create()
    await scripted.running()
    for number in (2, 3):
        [sandbox] = runtime_of(scripted).sandboxes()
        await runtime_of(scripted).stop_pod_sandbox(sandbox)
        scripted.agent._runtime.on_change(sandbox.pod_uid)
        await scripted.until(lambda number=number: len(runtime_of(scripted).sandbox_attempts) == number)
    assert runtime_of(scripted).sandbox_attempts == [0, 1, 2]
