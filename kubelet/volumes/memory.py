"""Directories in memory, for emptyDir volumes of the medium Memory.

They lie in the machine's /dev/shm, if that is a tmpfs, so that no mount of the kubelet's own is left over
when it is killed. A tmpfs that a real kubelet mounts is as large as the volume may be; this one is as large
as the machine's.
"""

import hashlib
import os
import stat
from pathlib import Path

from kubeskew.kubelet.volumes.files import VolumeFiles

_PREFIX = "kubeskew"
_OWNER = "owner"  # a file with the path of the node's directory


class MemoryDirectories:
    """The directories in memory of one node, whose own directory is `owner`."""

    def __init__(self, owner: Path, files: VolumeFiles, base: Path = Path("/dev/shm")) -> None:  # noqa: S108 - where Linux has it
        digest = hashlib.sha256(os.fsencode(owner)).hexdigest()[:16]
        self._owner = owner
        self._files = files
        self._base = base
        self._directory = base / f"{_PREFIX}-{os.geteuid()}-{digest}"

    def make(self, pod_uid: str, volume: str) -> Path | None:
        """None if there is no memory to be had. Raises OSError."""
        if not _is_tmpfs(self._base):
            return None
        if self._files.status(self._directory) is None:
            self._directory.mkdir(mode=0o700)
            self._files.write(self._directory / _OWNER, os.fsencode(self._owner), 0o600)
        status = self._files.status(self._directory)
        if status is None or status.st_uid != os.geteuid() or self._directory.is_symlink():
            return None  # another user has taken the name
        path = self._directory / pod_uid / volume
        self._files.make_directories(path, 0o700)
        return path

    def remove(self, pod_uid: str) -> None:
        self._files.remove_tree(self._directory / pod_uid)
        if self._files.names(self._directory) == [_OWNER]:
            self._files.remove_tree(self._directory)

    def remove_all(self) -> None:
        self._files.remove_tree(self._directory)

    def remove_lost(self) -> None:
        """Removes what was left by nodes whose directories are gone."""
        for directory in sorted(self._base.glob(f"{_PREFIX}-{os.geteuid()}-*")):
            status = self._files.status(directory)
            if status is None or not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue  # another user has taken the name
            owner = self._files.read(directory / _OWNER)
            if owner and not Path(os.fsdecode(owner)).is_dir():
                self._files.remove_tree(directory)


def _is_tmpfs(directory: Path) -> bool:
    """Decides by the machine's table of mounts."""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return False
    mounts = [line.split() for line in lines]
    return any(fields[1] == str(directory) and fields[2] == "tmpfs" for fields in mounts)
