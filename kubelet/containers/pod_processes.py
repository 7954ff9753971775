"""Runs the programs of one pod's containers, with the volumes they share."""

import base64
import functools
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.containers import journal
from kubeskew.kubelet.containers.container_process import ContainerProcess, Setting, new_files
from kubeskew.kubelet.containers.execution.files import FileSystem, Mount, Tree
from kubeskew.kubelet.containers.execution.simulating import ProgramEnd
from kubeskew.kubelet.containers.host_files import host_tree
from kubeskew.kubelet.containers.journal import Entry, Journal, apply_files, stored_file
from kubeskew.kubelet.containers.network import HTTPAnswer, HTTPRequest, PodNetwork
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.files import StateFiles


class PodProcesses:
    """The programs of one pod's containers. `planned` is called whenever `due_at` may have changed."""

    def __init__(
        self,
        sandbox: Sandbox,
        clock: Clock,
        path: Path,
        ended: Callable[[Sandbox, Container, ProgramEnd], None],
        planned: Callable[["PodProcesses"], None],
        files: StateFiles,
    ) -> None:
        self.sandbox = sandbox
        self._clock = clock
        self._ended = ended
        self._planned = planned
        self._journal = Journal(path, files)
        self._processes: dict[str, ContainerProcess] = {}  # by container id, in the order of their starts
        self._volumes: dict[str, Tree] = {}
        self._changes: dict[tuple[str, str], tuple[Tree, str]] = {}  # not yet stored
        self._advancing = False
        self._network = PodNetwork()

    # -- running

    @property
    def due_at(self) -> datetime | None:
        """Returns when a program has something to do next."""
        moments = (process.due_at for process in self._processes.values())
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def steps(self) -> int:
        """Returns the steps of the busiest program that still runs."""
        simulations = (process.simulation for process in self._processes.values())
        return max(
            (
                simulation.steps
                for simulation in simulations
                if simulation is not None and not simulation.is_closed
            ),
            default=0,
        )

    def advance(self, until: datetime | None = None) -> None:
        """Lets the programs run up to now, in the order in which they have something to do."""
        if self._advancing:
            return
        self._advancing = True
        try:
            self._advance(until or self._clock.now())
        finally:
            self._advancing = False
        self._planned(self)

    def _advance(self, until: datetime) -> None:
        while True:
            due = [(process.due_at, process) for process in self._processes.values()]
            soon = [(moment, process) for moment, process in due if moment is not None and moment <= until]
            if not soon:
                return
            first = min(soon, key=lambda pair: pair[0])
            others = [moment for moment, process in soon if process is not first[1]]
            first[1].run_until(min(others, default=until))

    # -- containers

    def add(self, container: Container) -> ContainerProcess:
        """Begins the program of a container that starts."""
        setting = _setting(self.sandbox, container)
        files = new_files(setting, self._mounts(container), container.started_at)
        ended = functools.partial(self._ended, self.sandbox, container)
        on_input = functools.partial(self._keep_input, container)
        container_process = ContainerProcess(
            self.sandbox, container, setting, files, self._clock, ended, self.advance, on_input,
            self._network, self.ask,
        )  # fmt: skip
        self._processes[container.id] = container_process
        return container_process

    def container_process(self, container: Container) -> ContainerProcess:
        return self._processes.get(container.id) or self.add(container)

    # -- the network

    def listens(self, port: int) -> bool:
        """Returns whether a program of the pod listens at a port."""
        self.advance()
        return self._network.at(port) is not None

    def ask(self, port: int, request: HTTPRequest) -> HTTPAnswer | None:
        """Returns what the program at a port answers; None if there is none. What it writes is kept, for no
        program of the pod would ask again after a restart of the kubelet."""
        self.advance()
        listener = self._network.at(port)
        if listener is None:
            return None
        process, now = self._processes.get(listener.container), self._clock.now()
        simulation = process.simulation if process is not None else None
        if process is None or simulation is None:
            return listener.answer(request, now)
        written: list[tuple[str, bytes]] = []

        def hear(stream: str, data: bytes) -> None:
            written.append((stream, data))

        simulation.listeners.append(hear)
        try:
            answer = listener.answer(request, now)
        finally:
            simulation.listeners.remove(hear)
        output = [[stream, base64.b64encode(data).decode()] for stream, data in written]
        self._note(journal.OUTPUT, now, container=listener.container, output=output)
        process.tell()
        return answer

    def signal(self, container: Container, name: str, at: datetime) -> None:
        """Sends the program a signal that it has a trap for."""
        self._note(journal.SIGNAL, at, container=container.id, signal=name)
        self.container_process(container).signal(name, at)
        self.advance()

    def forget(self, container: Container) -> None:
        """Forgets a container that is gone; what it left in volumes stays."""
        self._processes.pop(container.id, None)
        self.keep_files()
        kept = [entry for entry in self._journal.entries() if entry.get("container") != container.id]
        kept = [entry for entry in kept if entry["kind"] != journal.VOLUME]
        volumes = [self._volume_entry(name, tree) for name, tree in self._volumes.items()]
        self._journal.replace([*kept, *(entry for entry in volumes if len(entry["files"]) > 1)])

    def remove(self) -> None:
        """Forgets the pod."""
        self._journal.remove()

    # -- volumes

    def set_volumes(self, volumes: Mapping[str, Tree]) -> None:
        """Sets the files of the pod's volumes; those that the pod itself fills stay as they are."""
        for name, tree in volumes.items():
            known = self._volumes.get(name)
            if known is None:
                self._volumes[name] = tree
                if len(tree.entries) > 1:
                    self._journal.append(self._volume_entry(name, tree))
            elif tree.read_only:
                known.entries = tree.entries  # content of an API object now
                known.read_only = True

    def _volume_entry(self, name: str, tree: Tree) -> Entry:
        files = {path: stored_file(file) for path, file in tree.entries.items()}
        now = self._clock.now().isoformat()
        return {
            "kind": journal.VOLUME, "time": now, "name": name, "read_only": tree.read_only, "files": files,
        }  # fmt: skip

    def _mounts(self, container: Container) -> list[Mount]:
        found = []
        for mount in container.mounts:
            tree = self._volumes.setdefault(mount["name"], Tree())
            top = str(mount.get("subPath") or "").strip("/")
            path = "/" + mount["mountPath"].strip("/")
            found.append(Mount(path, tree, bool(mount.get("readOnly")) or tree.read_only, top))
        for host in container.host_mounts:
            path = "/" + host["path"].strip("/")
            found.append(Mount(path, host_tree(Path(host["host_path"])), host["read_only"]))
        return found

    # -- what is done from outside, and done again after a restart of the kubelet

    def recording(self, container_process: ContainerProcess) -> FileSystem:
        """Returns the container's files for a command from outside; `keep_files` keeps what it changes."""
        names = {id(tree): name for name, tree in self._volumes.items()}
        container = container_process.container.id

        def changed(tree: Tree, path: str) -> None:
            name = names.get(id(tree))
            if name is not None or tree is container_process.files.root:
                self._changes[f"volume:{name}" if name is not None else container, path] = tree, path

        return container_process.recording(changed)

    def keep_files(self) -> None:
        """Stores what commands from outside have changed."""
        changes, self._changes = self._changes, {}
        by_tree: dict[str, dict[str, Entry | None]] = {}
        for (place, _), (tree, path) in changes.items():
            by_tree.setdefault(place, {})[path] = stored_file(tree.entries.get(path))
        for place, files in by_tree.items():
            volume = place.removeprefix("volume:") if place.startswith("volume:") else None
            details = {"volume": volume} if volume is not None else {"container": place}
            self._note(journal.FILES, self._clock.now(), files=files, **details)

    def _keep_input(self, container: Container, data: bytes) -> None:
        text = base64.b64encode(data).decode()
        self._note(journal.INPUT, self._clock.now(), container=container.id, data=text)

    def _note(self, kind: str, time: datetime, **details: object) -> None:
        self._journal.append({"kind": kind, "time": time.isoformat(), **details})

    def restore(self) -> None:
        """Repeats all that was done to the containers since the first of them began, in order."""
        events: list[tuple[datetime, int, Entry | Container]] = [
            (journal.time_of(entry), 0 if entry["kind"] == journal.VOLUME else 2, entry)
            for entry in self._journal.entries()
        ]
        events += [(container.started_at, 1, container) for container in self.sandbox.containers]
        now = self._clock.now()
        for time, _, event in sorted(events, key=lambda event: event[:2]):
            self.advance(min(time, now))
            if isinstance(event, Container):
                self.add(event)
            else:
                self._apply(event)
        self.advance()

    def _apply(self, entry: Entry) -> None:
        time = journal.time_of(entry)
        if entry["kind"] == journal.VOLUME:
            tree = self._volumes.setdefault(entry["name"], Tree(read_only=entry["read_only"]))
            tree.entries.clear()
            apply_files(tree, entry["files"])
            return
        if entry.get("volume") is not None:
            apply_files(self._volumes.setdefault(entry["volume"], Tree()), entry["files"])
            return
        container_process = self._processes.get(entry["container"])
        if container_process is None:
            return
        if entry["kind"] == journal.FILES:
            apply_files(container_process.files.root, entry["files"])
        elif entry["kind"] == journal.OUTPUT:
            container_process.repeat(time, [(s, base64.b64decode(text)) for s, text in entry["output"]])
        elif entry["kind"] == journal.INPUT:
            container_process.take_input(base64.b64decode(entry["data"]), time)
        else:
            container_process.signal(entry["signal"], time)


def _setting(sandbox: Sandbox, container: Container) -> Setting:
    return Setting(
        container.argv, container.env, sandbox.hostname or sandbox.name, container.directory,
        sandbox.ip, container.stdin, container.tty, [node["path"] for node in container.device_nodes],
        container.image,
    )  # fmt: skip
