"""Make `tests/data/container-runtimes/NAME.jsonl`: the calls of our kubelet to a real container runtime.

    container_runtime_calls.py --endpoint unix:///run/containerd/containerd.sock --output FILE

As root, with the image `docker.io/library/busybox:1.36` in the runtime, into which `ctr --namespace k8s.io
images import` brings an archive. A pod comes, runs containers and commands, and goes; nothing of others is
touched. Each line but the last is a call in the order in which it was made:

    verb      its method
    request   its message
    response  the answer's message, or
    error     [code, text] of a call that the runtime refused

Paths of the node's directory are `$DIR` in it, the label of the node is `$NODE`. The last line, `results`, is
what the kubelet made of the answers.
"""

import argparse
import asyncio
import json
import re
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format

from kubeskew.apimachinery.clock import Clock, SystemClock
from kubeskew.kubelet.containers.remote.calls import SECONDS, RuntimeCalls
from kubeskew.kubelet.containers.remote.runtime import RemotePlace, RemoteRuntime, node_label
from kubeskew.kubelet.containers.runtime_service import (
    ContainerConfig,
    ContainerResources,
    ContainerRuntimeError,
    ContainerSecurity,
    ImageError,
    PodSandboxConfig,
)
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.protocols import cri
from kubeskew.kubelet.protocols.grpc_calls import RpcError

IMAGE, NODE, ENDPOINT = "docker.io/library/busybox:1.36", "node-1", "unix:///run/containerd/containerd.sock"
UID = "5b0a2c5e-8c0f-4f5e-9a57-3f3d0f8a7c11"
_LIVES = "trap 'exit 3' TERM; echo started; while true; do sleep 0.1; done"
_OF_MACHINE = re.compile(r', "/sys/devices/system/cpu/cpu[0-9]+/thermal_throttle"')
_STORE = re.compile(r'"[^"]*(/io\.containerd\.snapshotter[^"]*)"')
Line = dict[str, Any]


class Texts:
    """Puts the names of one run into messages, and takes them out."""

    def __init__(self, directory: Path) -> None:
        self._names = {
            "$NODE": node_label(NODE, directory / "remote"),
            "$DIR": str(directory.absolute()),
        }

    def out(self, message: Any) -> Any:
        text = json.dumps(json_format.MessageToDict(message, preserving_proto_field_name=True))
        for name, own in self._names.items():
            text = text.replace(own, name)
        return json.loads(_OF_MACHINE.sub("", _STORE.sub(r'"/var/lib/containerd\1"', text)))

    def into(self, content: Any, message: Any) -> Any:
        text = json.dumps(content)
        for name, own in self._names.items():
            text = text.replace(name, own)
        return json_format.ParseDict(json.loads(text), message)


class Recorder(RuntimeCalls):
    """Makes calls, and keeps them."""

    def __init__(self, endpoint: str, texts: Texts) -> None:
        super().__init__(endpoint)
        self._texts = texts
        self.lines: list[Line] = []

    async def call(self, verb: str, request: Any, seconds: float | None = SECONDS) -> Any:
        line: Line = {"verb": verb, "request": self._texts.out(request)}
        self.lines.append(line)
        try:
            answer = await super().call(verb, request, seconds)
        except RpcError as error:
            line["error"] = [error.code.name, error.description]
            raise
        line["response"] = self._texts.out(answer)
        return answer


class Player:
    """Answers calls as they were recorded; others, or in another order, are an AssertionError."""

    endpoint = ENDPOINT

    def __init__(self, lines: list[Line], texts: Texts) -> None:
        self._lines = iter(lines)
        self._texts = texts

    async def call(self, verb: str, request: Any, seconds: float | None = SECONDS) -> Any:
        line = next(self._lines, {"verb": "nothing", "request": {}})
        asked = {"verb": verb, "request": self._texts.out(request)}
        recorded = {"verb": line["verb"], "request": line["request"]}
        if asked != recorded:
            raise AssertionError(f"asked {asked}, recorded {recorded}")
        if "error" in line:
            raise RpcError(grpc.StatusCode[line["error"][0]], line["error"][1])
        method = cri.RUNTIME_METHODS.get(verb) or cri.IMAGE_METHODS[verb]
        return self._texts.into(line["response"], method.response())

    check = RuntimeCalls.check

    async def close(self) -> None:
        if (left := next(self._lines, None)) is not None:
            raise AssertionError(f"recorded, and not asked for: {left['verb']}")


def runtime_at(directory: Path, calls: Any, clock: Clock) -> RemoteRuntime:
    """The runtime of a node whose calls are those."""
    place = RemotePlace(directory / "remote", directory / "logs", directory / "seccomp", "127.0.0.1")
    return RemoteRuntime(ENDPOINT, NODE, place, clock, calls=calls)


async def session(runtime: RemoteRuntime, directory: Path) -> list[Any]:
    """Has a pod come and go; the results are what the kubelet sees of it."""
    results: list[Any] = []
    await runtime.load()
    results += [runtime.version, runtime.problem(), len(runtime.sandboxes())]
    image = await runtime.images.image(IMAGE)
    results.append(image is not None and IMAGE in image.names)
    results += [
        await runtime.images.image("nothing:1"),
        await _refused(runtime.images.pull_image("localhost:1/x")),
    ]
    pod = PodSandboxConfig(
        *(UID, "default", "web", "web", directory / "logs" / f"default_web_{UID}"),
        security=ContainerSecurity(seccomp="RuntimeDefault"),
    )
    sandbox = await runtime.run_pod_sandbox(pod)
    results.append([sandbox.ready, bool(sandbox.ip), sandbox.name])
    main = await _started(runtime, sandbox, _container("main", "sh", "-c", _LIVES))
    bad = await _started(runtime, sandbox, _container("bad", "/nothing"))
    results += [_shown(main), _shown(bad)]
    done = await runtime.exec_sync(sandbox, main, ["sh", "-c", "echo out; echo err >&2; exit 4"], 5)
    results.append([done.exit_code, done.stdout.decode(), done.stderr.decode()])
    results.append(await _refused(runtime.exec_sync(sandbox, main, ["sleep", "9"], 1)))
    results.append(await _refused(runtime.exec_sync(sandbox, main, ["nothing"], 1)))
    limits = ContainerResources(cpu_shares=100, memory_bytes=50 << 20)
    results.append(await _refused(runtime.update_resources(sandbox, main, limits, {})))
    results.append(await _refused(runtime.reopen_log(sandbox, main)))
    await runtime.measure()
    results.append(runtime.stats(sandbox, main).working_set > 0)
    changed = asyncio.Event()
    runtime.on_change = lambda _uid: changed.set()
    runtime.stop_container(sandbox, main, 10)
    await changed.wait()
    results.append(_shown(main))
    for _ in range(2):
        again = await _started(runtime, sandbox, _container("main", "sh", "-c", _LIVES))
        changed.clear()
        runtime.stop_container(sandbox, again, 0)
        await changed.wait()
        results.append(_shown(again))
    results.append([[each.name, each.attempt] for each in sandbox.containers])
    await runtime.stop_pod_sandbox(sandbox)
    results.append(sandbox.ready)
    sandbox = await runtime.run_pod_sandbox(pod)
    results.append([sandbox.ready, len(sandbox.containers)])
    results.append(await _refused(runtime.port_forward(sandbox, 80)) if not sandbox.ready else "")
    await runtime.remove_pod_sandbox(UID)
    results.append(len(runtime.sandboxes()))
    results.append(await _refused(runtime.exec_sync(sandbox, again, ["true"], 1)))
    await runtime.close()
    return results


async def _started(runtime: RemoteRuntime, sandbox: Sandbox, config: ContainerConfig) -> Container:
    """A container that is started, of which no more than one older attempt is left."""
    container = await runtime.start_container(sandbox, config)
    await runtime.remove_old_attempts(sandbox, config.name)
    return container


def _container(name: str, *command: str) -> ContainerConfig:
    security = ContainerSecurity(run_as_user=0, seccomp="RuntimeDefault", dropped_capabilities=["NET_RAW"])
    resources = ContainerResources(cpu_shares=2, oom_score_adjustment=1000)
    return ContainerConfig(
        *(name, IMAGE, command), env={"A": "b"}, security=security, resources=resources,
        annotations={"io.kubernetes.container.hash": "1f"},
    )  # fmt: skip


def _shown(container: Container) -> list[Any]:
    ended = container.ends_at is not None
    return [
        container.name,
        container.attempt,
        ended,
        container.exit_code,
        container.reason,
        container.message,
    ]


async def _refused(call: Awaitable[Any]) -> str:
    """The error of a call, empty if it has none."""
    try:
        await call
    except (ContainerRuntimeError, ImageError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


async def record(endpoint: str) -> list[Line]:
    with tempfile.TemporaryDirectory() as directory:
        recorder = Recorder(endpoint, Texts(Path(directory)))
        runtime = runtime_at(Path(directory), recorder, SystemClock())
        results = await session(runtime, Path(directory))
    return [*recorder.lines, {"results": results}]


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the calls of our kubelet to a container runtime.")
    parser.add_argument("--endpoint", default=ENDPOINT)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    lines = asyncio.run(record(arguments.endpoint))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text("".join(f"{json.dumps(line, sort_keys=True)}\n" for line in lines))


if __name__ == "__main__":
    main()
