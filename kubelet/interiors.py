"""The insides of one node's containers: made when somebody looks, and the files they share.

What a container's program does is found again from its start. What others did to its files (`exec`, `cp`) is
kept in a file per container, and laid over them.
"""

import base64
import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson

from apimachinery.clock import Clock
from kubelet import insides
from kubelet.files import read_kept, write_atomically
from kubelet.host_files import host_tree
from kubelet.insides import Inside, Setting
from kubelet.sandbox import Container, Sandbox
from kubelet.shell import interpreter
from kubelet.shell.files import File, Mount, Tree
from kubelet.shell.simulating import Ending


class Interiors:
    """`ended` is told when a program ended that could not be foreseen to. Kept files lie in `directory`."""

    def __init__(
        self, directory: Path, clock: Clock, ended: Callable[[Sandbox, Container, Ending], None]
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._ended = ended
        self._insides: dict[str, Inside] = {}  # by container id
        self._volumes: dict[str, dict[str, Tree]] = {}  # pod → volume → its files

    def foresee(self, sandbox: Sandbox, container: Container) -> None:
        """When the container's program will have ended, if it does so by itself."""
        setting = _setting(sandbox, container)
        if not (setting.argv and interpreter.knows(setting.argv[0])):
            return
        mounts = self._mounts(sandbox, container, copied=True)
        files = insides.new_files(setting, mounts, container.started_at)
        ending = insides.foresee(setting, files, container.started_at)
        container.ends_at = None if ending is None else ending.time
        container.exit_code = 0 if ending is None else ending.code

    def inside(self, sandbox: Sandbox, container: Container) -> Inside:
        found = self._insides.get(container.id)
        if found is None:
            setting = _setting(sandbox, container)
            mounts = self._mounts(sandbox, container)
            files = insides.new_files(setting, mounts, container.started_at)
            self._restore(container, files.root)
            ended = functools.partial(self._ended, sandbox, container)
            found = Inside(sandbox, container, setting, files, self._clock, ended)
            self._insides[container.id] = found
        return found

    def tell(self, container: Container) -> None:
        """The container's end has changed."""
        if container.id in self._insides:
            self._insides[container.id].tell()

    # -- volumes

    def set_volumes(self, pod_uid: str, volumes: Mapping[str, Tree]) -> None:
        known = self._volumes.setdefault(pod_uid, {})
        for name, tree in volumes.items():
            if name not in known:
                known[name] = tree
            elif tree.read_only:
                known[name].entries = tree.entries  # what an object holds now
                known[name].read_only = True

    def _mounts(self, sandbox: Sandbox, container: Container, *, copied: bool = False) -> list[Mount]:
        """The container's mounts; `copied`: what is written there touches nobody else."""
        volumes = self._volumes.setdefault(sandbox.pod_uid, {})
        found = []
        for mount in container.mounts:
            tree = volumes.setdefault(mount["name"], Tree())
            if copied:
                tree = Tree(read_only=tree.read_only)
                tree.entries = dict(volumes[mount["name"]].entries)
            top = str(mount.get("subPath") or "").strip("/")
            path = "/" + mount["mountPath"].strip("/")
            found.append(Mount(path, tree, bool(mount.get("readOnly")) or tree.read_only, top))
        for host in container.host_mounts:
            path = "/" + host["path"].strip("/")
            found.append(Mount(path, host_tree(Path(host["host_path"])), host["read_only"]))
        return found

    # -- what is kept

    def keep_files(self, inside: Inside) -> None:
        """Write down what is in the container's own files and was not when it was made."""
        container = inside.container
        fresh = insides.new_files(inside.setting, inside.files.mounts, container.started_at).root.entries
        entries = inside.files.root.entries
        changed = {path: file for path, file in entries.items() if fresh.get(path) != file}
        kept: dict[str, dict[str, object] | None] = {path: _kept(file) for path, file in changed.items()}
        kept |= {path: None for path in fresh if path not in entries}
        path = self._path(container)
        if kept or path.exists():
            write_atomically(path, orjson.dumps(kept))

    def _restore(self, container: Container, root: Tree) -> None:
        content = read_kept(self._path(container))
        for path, file in orjson.loads(content).items() if content else ():
            if file is None:
                root.entries.pop(path, None)
            else:
                data = None if file["data"] is None else base64.b64decode(file["data"])
                root.put(path, File(data, file["mode"], file["changed"], file["target"]))

    def _path(self, container: Container) -> Path:
        return self._directory / f"{container.id}.json"

    def forget(self, container: Container) -> None:
        """The container is no more."""
        self._insides.pop(container.id, None)
        self._path(container).unlink(missing_ok=True)

    def forget_pod(self, sandbox: Sandbox) -> None:
        self._volumes.pop(sandbox.pod_uid, None)
        for container in sandbox.containers:
            self.forget(container)


def _kept(file: File) -> dict[str, object]:
    data = None if file.data is None else base64.b64encode(file.data).decode()
    return {"data": data, "mode": file.mode, "changed": file.changed, "target": file.target}


def _setting(sandbox: Sandbox, container: Container) -> Setting:
    return Setting(
        container.argv, container.env, sandbox.hostname or sandbox.name, container.directory,
        sandbox.ip, container.stdin, container.tty, [node["path"] for node in container.device_nodes],
    )  # fmt: skip
