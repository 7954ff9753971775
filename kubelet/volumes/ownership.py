"""Gives a volume to the pod's fsGroup, and finds the user that all containers run as.

Source: pkg/volume/volume_linux.go; pkg/volume/util/util.go (FsUserFrom), 1.36.
"""

import stat
from pathlib import Path

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.volumes.files import KEEP, VolumeFiles

_WRITABLE, _READABLE, _EXECUTABLE = 0o660, 0o440, 0o110


def fs_group(pod: Object) -> int | None:
    group = (pod["spec"].get("securityContext") or {}).get("fsGroup")
    return None if group is None else int(group)


def change_policy(pod: Object) -> str:
    return str((pod["spec"].get("securityContext") or {}).get("fsGroupChangePolicy") or "Always")


def fs_user(pod: Object) -> int | None:
    """The user of all containers; None if one names none, or if they differ."""
    common = (pod["spec"].get("securityContext") or {}).get("runAsUser")
    users = {
        (container.get("securityContext") or {}).get("runAsUser", common)
        for container in pod_spec.all_containers(pod)
    }
    [user] = users if len(users) == 1 else [None]
    return None if user is None else int(user)


def give_to_group(
    files: VolumeFiles, directory: Path, group: int | None, *, read_only: bool, policy: str = "Always"
) -> None:
    """Makes all files of the volume accessible to the group, unless the policy is OnRootMismatch and the
    volume's directory is so already. Does nothing without a group."""
    if group is None or (policy == "OnRootMismatch" and _is_given(directory, group, read_only=read_only)):
        return
    mask = _READABLE if read_only else _WRITABLE
    for path, status in files.below(directory):
        files.change_owner(path, KEEP, group)
        if stat.S_ISLNK(status.st_mode):
            continue
        more = mask | (stat.S_ISGID | _EXECUTABLE if stat.S_ISDIR(status.st_mode) else 0)
        files.change_mode(path, stat.S_IMODE(status.st_mode) | more)


def _is_given(directory: Path, group: int, *, read_only: bool) -> bool:
    status = directory.stat()
    if status.st_gid != group or not stat.S_ISDIR(status.st_mode):
        return False
    needed = (_READABLE if read_only else _WRITABLE) | _EXECUTABLE | stat.S_ISGID
    return status.st_mode & needed == needed
