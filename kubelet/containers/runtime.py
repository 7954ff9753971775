"""The fake container runtime of one node: sandboxes and containers that outlive the kubelet.

There are no processes. A container is a record of when it began and when it ended. So it goes on running
without a kubelet, and survives the kubelet's restart, upgrade and kill. Commands that the shell in
`kubelet/containers/shell` understands run as time passes (`node_processes.py`), after a restart again from
their start: the state at any moment depends only on the clock and on input from outside. One file per pod,
`<directory>/<pod uid>.json`, holds the sandbox and its containers.
"""

import hashlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import orjson

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.container_process import ContainerProcess
from kubeskew.kubelet.containers.event_log import EXITED, STOPPED, ContainerEvents
from kubeskew.kubelet.containers.execution.files import FileSystem, Tree
from kubeskew.kubelet.containers.execution.simulating import ProgramEnd
from kubeskew.kubelet.containers.expansion import expanded
from kubeskew.kubelet.containers.images import arguments, is_known
from kubeskew.kubelet.containers.network import HTTPAnswer, HTTPRequest
from kubeskew.kubelet.containers.node_processes import NodeProcesses
from kubeskew.kubelet.containers.program import Program
from kubeskew.kubelet.containers.sandbox import Container, Sandbox, full_image_name, sandbox_from
from kubeskew.kubelet.device_managers import ContainerDevices
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles

_KILLED_EXIT_CODE = 137  # 128 + SIGKILL
_FIRST_HOST, _HOSTS = 2, 253  # of a node's addresses
_START_CORE_SECONDS = 2e-9  # a counter at 0 would count as unknown, also of one that uses nothing
_KEPT_ATTEMPTS = 2  # the newest one and one dead before it (the kubelet's default garbage collection)


class FakeRuntime:
    """The runtime of one node. Call `load` first.

    Changes to containers are on disk when a call returns. An empty sandbox, or that one was stopped, is not
    written: a kubelet that does not find it does the same again.
    """

    def __init__(
        self,
        directory: Path,
        node_name: str,
        clock: Clock,
        entropy: Entropy,
        files: StateFiles = UNJOURNALLED,
    ) -> None:
        self._directory = directory
        self._files = files
        self._clock = clock
        self._entropy = entropy
        # Two octets per node: addresses look right and are unique on the node. Nothing routes them.
        digest = hashlib.sha256(node_name.encode()).digest()
        self._network = f"10.{128 + digest[0] % 120}.{digest[1]}"
        self._last_host = -1  # the number of the last address that was given out
        self._sandboxes: dict[str, Sandbox] = {}
        self._events = ContainerEvents(directory, files)
        self._processes = NodeProcesses(directory / "files", clock, self._ended, files)
        self.on_end: Callable[[str], None] = lambda _pod_uid: None  # called when a program ended by itself

    def load(self) -> None:
        """Loads the containers that run already."""
        if not self._directory.is_dir():
            return
        for path in sorted(self._directory.glob("*.json")):
            content = self._files.read(path)
            if not content:  # lost in a crash of the machine
                self._files.remove(path)
                continue
            sandbox = sandbox_from(orjson.loads(content))
            self._sandboxes[sandbox.pod_uid] = sandbox
        newest = max(self._sandboxes.values(), key=lambda sandbox: sandbox.created_at, default=None)
        if newest is not None:
            self._last_host = int(newest.ip.rpartition(".")[2]) - _FIRST_HOST

    # -- reading

    def sandboxes(self) -> list[Sandbox]:
        return [*self._sandboxes.values()]

    def sandbox(self, pod_uid: str) -> Sandbox | None:
        """Returns a pod's sandbox; its containers have gone on while no kubelet ran."""
        sandbox = self._sandboxes.get(pod_uid)
        if sandbox is not None:
            self._processes.pod(sandbox)
        return sandbox

    def running(self) -> frozenset[tuple[str, str]]:
        """Returns (pod UID, container) of all running containers."""
        now = self._clock.now()
        return frozenset(
            (sandbox.pod_uid, container.name)
            for sandbox in self._sandboxes.values()
            for container in sandbox.running(now)
        )

    # -- changing

    def run_sandbox(self, pod: Object) -> Sandbox:
        """Creates the pod's sandbox, with an address."""
        metadata = pod["metadata"]
        sandbox = Sandbox(
            pod_uid=metadata["uid"],
            namespace=metadata["namespace"],
            name=metadata["name"],
            id=self._identifier(),
            ip=self._address(),
            created_at=self._clock.now(),
            hostname=(pod.get("spec") or {}).get("hostname") or metadata["name"],
        )
        self._sandboxes[sandbox.pod_uid] = sandbox
        return sandbox

    def start_container(
        self,
        sandbox: Sandbox,
        name: str,
        image: str,
        program: Program,
        *,
        env: Mapping[str, str] | None = None,
        devices: ContainerDevices | None = None,
        spec: Object | None = None,
        failure: str = "",
        cores: float = 0.0,
    ) -> Container:
        """Starts the next attempt of a container; drops dead attempts but the last.

        `env` is the whole environment. `spec` is the container's; without it no program runs inside.
        `failure` says why its program could not be started: the attempt has ended then. It uses `cores`.
        """
        devices = devices or ContainerDevices()
        now = self._clock.now()
        before = sandbox.latest(name)
        container = Container(
            id=self._identifier(),
            name=name,
            attempt=before.attempt + 1 if before is not None else 0,
            image=full_image_name(image),
            started_at=now,
            ends_at=None if program.runs_for is None else now + timedelta(seconds=program.runs_for),
            exit_code=program.exit_code,
            stops_after=program.stops_after,
            env=dict(env or {}),
            cdi_devices=list(devices.cdi_ids),
            device_nodes=[node._asdict() for node in devices.nodes],
            host_mounts=[mount._asdict() for mount in devices.mounts],
            annotations=dict(devices.annotations),
            is_fixed=program.is_fixed,
            reason="StartError" if failure else "",
            message=failure,
            cores=cores,
            core_seconds=_START_CORE_SECONDS,
            **_inner(spec or {}, env or {}),
        )
        self._processes.pod(sandbox).advance()
        sandbox.containers.append(container)
        oldest = container.attempt - _KEPT_ATTEMPTS + 1
        for old in [c for c in sandbox.containers if c.name == name and c.attempt < oldest]:
            sandbox.containers.remove(old)
            self._processes.forget(sandbox, old)
        self._save(sandbox)
        self._events.started(sandbox, container, devices.cdi, now)
        self._processes.start(sandbox, container)
        return container

    def meter(self, sandbox: Sandbox, container: Container, cores: float) -> None:
        """Takes note of how many cores a running container uses from now on."""
        if container.cores != cores:
            now = self._clock.now()
            container.core_seconds, container.metered_at = container.used(now), now
            container.cores = cores
            self._save(sandbox)

    # -- inside

    async def run_programs(self) -> None:
        """Lets the containers' programs run as time passes, until cancelled."""
        await self._processes.run()

    def set_volumes(self, pod_uid: str, volumes: Mapping[str, Tree]) -> None:
        """Sets the files of a pod's volumes; those that are there already stay."""
        sandbox = self._sandboxes.get(pod_uid)
        if sandbox is not None:
            self._processes.set_volumes(sandbox, volumes)

    def container_process(self, sandbox: Sandbox, container: Container) -> ContainerProcess:
        """Returns the process of a container."""
        return self._processes.container_process(sandbox, container)

    def listens(self, sandbox: Sandbox, port: int) -> bool | None:
        """Returns whether a program of the pod listens at a port; None if it may, for all that is known."""
        if self._processes.pod(sandbox).listens(port):
            return True
        running = sandbox.running(self._clock.now())
        return False if all(is_known(container.image) for container in running) else None

    def ask(self, sandbox: Sandbox, port: int, request: HTTPRequest) -> HTTPAnswer | None:
        """Returns what the program at a port of a pod answers; None if there is none."""
        return self._processes.pod(sandbox).ask(port, request)

    def recording(self, container_process: ContainerProcess) -> FileSystem:
        """Returns a container's files for a command from outside; `keep_files` then keeps what it changed."""
        return self._processes.recording(container_process)

    def keep_files(self, container_process: ContainerProcess) -> None:
        """Stores what commands from outside changed in a container's files."""
        self._processes.keep_files(container_process)

    def _ended(self, sandbox: Sandbox, container: Container, ending: ProgramEnd) -> None:
        if container.is_fixed and container.ends_at is not None:
            return
        if container.ends_at is None or ending.time < container.ends_at:
            container.ends_at = ending.time
            container.exit_code = container.exit_code if container.is_fixed else ending.code
            self._save(sandbox)
            self._events.ended(EXITED, sandbox, container, self._clock.now())
            self.on_end(sandbox.pod_uid)

    def stop_container(
        self, sandbox: Sandbox, container: Container, grace: float, delay: float = 0.0
    ) -> None:
        """Sends SIGTERM after `delay` seconds (a preStop hook), SIGKILL once `grace` seconds have passed.

        Returns at once; when the container ends is known from then on.
        """
        pod = self._processes.pod(sandbox)
        pod.advance()
        if pod.container_process(container).handles("TERM") and not container.is_fixed and delay < grace:
            self.kill_container(sandbox, container, grace)
            pod.signal(container, "TERM", self._clock.now() + timedelta(seconds=delay))
            return
        lives = None if container.stops_after is None else delay + container.stops_after
        if lives is None or lives > grace:
            self.kill_container(sandbox, container, grace)
        else:
            self._end(sandbox, container, lives, exit_code=0)

    def kill_container(self, sandbox: Sandbox, container: Container, after: float) -> None:
        """Sends SIGKILL after so many seconds, unless the container ends sooner."""
        self._end(sandbox, container, after, exit_code=_KILLED_EXIT_CODE)

    def _end(self, sandbox: Sandbox, container: Container, after: float, *, exit_code: int) -> None:
        ends_at = self._clock.now() + timedelta(seconds=after)
        if container.ends_at is None or ends_at < container.ends_at:
            container.ends_at, container.exit_code = ends_at, exit_code
            self._save(sandbox)
            self._events.ended(STOPPED, sandbox, container, self._clock.now())
            self._processes.end_changed(sandbox, container)

    def stop_sandbox(self, sandbox: Sandbox) -> None:
        """Releases the sandbox's network; its dead containers stay readable."""
        sandbox.ready = False

    def remove_sandbox(self, pod_uid: str) -> None:
        """Forgets the pod."""
        sandbox = self._sandboxes.pop(pod_uid, None)
        if sandbox is not None:
            self._processes.forget_pod(sandbox)
            self._files.remove(self._path(pod_uid))

    # -- state

    def _path(self, pod_uid: str) -> Path:
        return self._directory / f"{pod_uid}.json"

    def _save(self, sandbox: Sandbox) -> None:
        self._files.write(self._path(sandbox.pod_uid), orjson.dumps(sandbox, option=orjson.OPT_INDENT_2))

    def _identifier(self) -> str:
        return (self._entropy.uid() + self._entropy.uid()).replace("-", "")

    def _address(self) -> str:
        """Returns the next address after the last one, as the CNI plugin host-local gives them out.

        So one that a pod has just left is not another's while the API server has not heard of its end.
        """
        used = {sandbox.ip for sandbox in self._sandboxes.values() if sandbox.ready}
        turn = [(self._last_host + step) % _HOSTS for step in range(1, _HOSTS + 1)]
        # Past 253 pods addresses repeat: nothing routes them.
        host = next((host for host in turn if self._address_of(host) not in used), turn[0])
        self._last_host = host
        return self._address_of(host)

    def _address_of(self, host: int) -> str:
        return f"{self._network}.{_FIRST_HOST + host}"


def _inner(spec: Object, env: Mapping[str, str]) -> Object:
    """Returns the fields of a container's spec that concern its process."""
    words = arguments(spec.get("image") or "", spec.get("command") or [], spec.get("args") or [])
    argv = [expanded(word, env) for word in words]
    return {
        "argv": argv,
        "directory": spec.get("workingDir") or "/",
        "stdin": bool(spec.get("stdin")),
        "stdin_once": bool(spec.get("stdinOnce")),
        "tty": bool(spec.get("tty")),
        "mounts": list(spec.get("volumeMounts") or []),
    }
