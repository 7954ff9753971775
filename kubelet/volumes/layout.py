"""Maps the paths of a node to this machine; names the directories of pods below the kubelet's.

A node has a root directory of its own. Some directories that the kubelet and drivers share lie elsewhere
(their sockets need short paths). A path of the node is followed as inside of a root directory: links and `..`
never lead out of the node's directories.

Source: pkg/kubelet/kubelet_getters.go, pkg/kubelet/config/defaults.go, 1.36.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from kubeskew.kubelet.volumes.files import check_path, open_below

log = logging.getLogger(__name__)

KUBELET_ROOT = "/var/lib/kubelet"
POD_LOGS = "/var/log/pods"
_MOST_LINKS = 40  # as Linux
_HOSTS = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_LINK_ERROR = 40  # ELOOP
_DIRECTORY_MODE = 0o755
_FILE_MODE = 0o644


class Nested(NamedTuple):
    """A directory that lies elsewhere, as a container sees it that mounts one above it."""

    relative: str
    path: Path


class NodeRoot:
    """The root directory of a node. `elsewhere` maps paths of the node to directories of this machine."""

    def __init__(self, root: Path, elsewhere: Mapping[str, Path]) -> None:
        self._root = root
        # Longest first: a directory may lie in another that is elsewhere, too.
        self._elsewhere = dict(sorted(elsewhere.items(), key=lambda item: (-len(item[0]), item[0])))

    def make(self) -> None:
        """Makes the root, with the one file that every machine has, and the places at which the directories
        that lie elsewhere are mounted.
        """
        self._root.parent.mkdir(parents=True, exist_ok=True)
        os.close(open_below(self._root.parent, [self._root.name], _DIRECTORY_MODE))
        with _left_to_containers("/etc"):
            _make_hosts(open_below(self._root, ["etc"], _DIRECTORY_MODE))
        for node_path in reversed(self._elsewhere):
            place = PurePosixPath(node_path)
            base, below = self._based(str(place.parent))
            base.mkdir(parents=True, exist_ok=True)
            with _left_to_containers(node_path):
                os.close(open_below(base, [*_parts(below), place.name], _DIRECTORY_MODE))

    def place(self, node_path: str) -> Path:
        """Maps an absolute path of the node without following links."""
        base, below = self._based(node_path)
        return base / below

    def _based(self, node_path: str) -> tuple[Path, str]:
        """Splits a path into a directory that is the kubelet's and what is below it, as containers may
        change it."""
        for prefix, path in self._elsewhere.items():
            if node_path == prefix or node_path.startswith(f"{prefix}/"):
                return path, node_path[len(prefix) + 1 :]
        return self._root, node_path.lstrip("/")

    def resolve(self, node_path: str) -> Path:
        """Maps a path of the node, and follows links as they are meant on the node. Raises OSError."""
        check_path(node_path)
        known: list[str] = []
        pending = _parts(node_path)
        links = 0
        while pending:
            part = pending.pop(0)
            if part == "..":
                known = known[:-1]
                continue
            candidate = "/" + "/".join([*known, part])
            path = self.place(candidate)
            if candidate in self._elsewhere or not path.is_symlink():
                known.append(part)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(_LINK_ERROR, os.strerror(_LINK_ERROR), node_path)
            target = str(path.readlink())
            if target.startswith("/"):
                known = []
            pending = [*_parts(target), *pending]
        return self.place("/" + "/".join(known))

    def nested(self, node_path: str) -> list[Nested]:
        """Finds the directories elsewhere below a path of the node, those nearest to it first."""
        above = "/" if node_path.strip("/") == "" else f"{node_path.rstrip('/')}/"
        return [
            Nested(prefix[len(above) :], path)
            for prefix, path in reversed(self._elsewhere.items())
            if prefix.startswith(above)
        ]


@contextlib.contextmanager
def _left_to_containers(node_path: str) -> Iterator[None]:
    """Leaves a place as it is where a container of the node has put a link, or a file."""
    try:
        yield
    except NotADirectoryError:
        log.warning("%s of the node is no directory: left as it is", node_path)


def _make_hosts(directory: int) -> None:
    """Makes the file unless there is anything of its name; closes the directory."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with (
            contextlib.suppress(FileExistsError),
            os.fdopen(os.open("hosts", flags, _FILE_MODE, dir_fd=directory), "w") as file,
        ):
            os.fchmod(file.fileno(), _FILE_MODE)  # whatever the process's mask is
            file.write(_HOSTS)
    finally:
        os.close(directory)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


class PodDirectories:
    """The directories of pods below the kubelet's root directory, which is `root` on this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def pods(self) -> Path:
        return self.root / "pods"

    def pod(self, uid: str) -> Path:
        return self.pods / uid

    def volumes(self, uid: str) -> Path:
        return self.pod(uid) / "volumes"

    def volume(self, uid: str, plugin: str, name: str) -> Path:
        return self.volumes(uid) / plugin / name

    def plugin(self, uid: str, plugin: str, name: str) -> Path:
        """A plugin's notes of a volume."""
        return self.pod(uid) / "plugins" / plugin / name

    def subpaths(self, uid: str) -> Path:
        return self.pod(uid) / "volume-subpaths"

    def container(self, uid: str, name: str) -> Path:
        return self.pod(uid) / "containers" / name

    def hosts_file(self, uid: str) -> Path:
        return self.pod(uid) / "etc-hosts"

    def node_path(self, path: Path) -> str:
        """The path as the node has it, for messages."""
        try:
            return f"{KUBELET_ROOT}/{path.relative_to(self.root)}"
        except ValueError:
            return str(path)


def joined_errors(errors: Sequence[str]) -> str:
    """Words several errors as one, each once (k8s.io/apimachinery/pkg/util/errors, NewAggregate)."""
    once = list(dict.fromkeys(errors))
    return once[0] if len(once) == 1 else f"[{', '.join(once)}]"
