"""Checks that what a hostPath volume names is of the type that it wants, or makes it.

Source: pkg/volume/hostpath/host_path.go, 1.36.
"""

import stat
from pathlib import Path

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.volumes.files import VolumeFiles, go_error
from kubeskew.kubelet.volumes.layout import NodeRoot

_TYPES = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}
_DIRECTORY_MODE, _FILE_MODE = 0o755, 0o644


def set_up(source: Object, root: NodeRoot, files: VolumeFiles) -> Path:
    """Maps the path of a hostPath source to this machine. Raises ConfigError.

    A path of no type that does not exist becomes a directory, as runtimes make it.
    """
    path, kind = source["path"], source.get("type") or ""
    if ".." in path.split("/"):
        raise ConfigError(f"invalid HostPath `{path}`: must not contain '..'")
    try:
        place = root.resolve(path)
    except OSError as error:
        raise ConfigError(go_error("stat", path, error)) from None
    status = files.status(place)
    if kind in ("", "DirectoryOrCreate") and status is None:
        try:
            files.make_directories(place, _DIRECTORY_MODE)
        except OSError as error:
            raise ConfigError(go_error("mkdir", path, error)) from None
        return place
    if kind == "FileOrCreate" and status is None:
        try:
            files.write(place, b"", _FILE_MODE)
        except OSError as error:
            raise ConfigError(go_error("open", path, error)) from None
        return place
    if not kind:
        return place
    if kind not in _TYPES:
        raise ConfigError(f"{kind} is an invalid volume type")
    is_right, name = _TYPES[kind]
    if status is None or not is_right(status.st_mode):
        raise ConfigError(f"hostPath type check failed: {path} is not {name}")
    return place
