"""The user, groups and capabilities of a container's processes.

Source: containerd's pkg/oci/spec_opts.go (WithUser, WithAdditionalGIDs, defaultUnixCaps) and
internal/cri/opts; capabilities(7).
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kubeskew.kubelet.containers.host import syscalls
from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError, ContainerSecurity

CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip
_DEFAULT = (
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
    "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
)  # fmt: skip
ALL = (1 << len(CAPABILITIES)) - 1
# Those over a network, which belongs to the user namespace that it was made in.
NETWORK = sum(1 << CAPABILITIES.index(name) for name in ("NET_ADMIN", "NET_RAW", "NET_BROADCAST"))
_MOST_BYTES = 4 * 1024 * 1024


class User(NamedTuple):
    uid: int
    gid: int
    groups: Sequence[int]
    home: str


def user_of(root: Path, image_user: str, security: ContainerSecurity) -> User:
    """The user that a container runs as, of the files of its image. Raises ContainerRuntimeError."""
    passwd = [line.split(":") for line in _lines(root, "etc/passwd")]
    group = [line.split(":") for line in _lines(root, "etc/group")]
    named, _, named_group = image_user.partition(":")
    uid: int | None = security.run_as_user
    if uid is None and named.isdecimal():
        uid = int(named)
    by_name = named if uid is None and named else ""
    entry = next((fields for fields in passwd if _is_user(fields, uid or 0, by_name)), None)
    if by_name and entry is None:
        raise ContainerRuntimeError(f"unable to find user {named}: no matching entries in passwd file")
    uid = int(entry[2]) if entry is not None else uid or 0
    gid = security.run_as_group
    if gid is None and security.run_as_user is None and named_group:
        gid = _group_of(group, named_group)
    if gid is None:
        gid = int(entry[3]) if entry is not None and entry[3].isdecimal() else 0
    groups = [gid, *security.supplemental_groups]
    if not security.strict_groups and entry is not None:
        member = entry[0]
        groups += [int(g[2]) for g in group if len(g) > 3 and member in g[3].split(",") and g[2].isdecimal()]
    home = entry[5] if entry is not None and len(entry) > 5 and entry[5] else "/"
    return User(uid, gid, [*dict.fromkeys(groups)], home)


def capabilities_of(security: ContainerSecurity) -> int:
    """A bit for each capability. Raises ContainerRuntimeError for an unknown one."""
    if security.privileged:
        return ALL
    mask = sum(1 << CAPABILITIES.index(name) for name in _DEFAULT)
    added, dropped = [
        [_bare(name) for name in names]
        for names in (security.added_capabilities, security.dropped_capabilities)
    ]
    if "ALL" in added:
        mask = ALL
    if "ALL" in dropped:
        mask = 0
    for name in added:
        if name != "ALL":
            mask |= _bit(name)
    for name in dropped:
        if name != "ALL":
            mask &= ~_bit(name)
    return mask


def _bare(name: str) -> str:
    return name.upper().removeprefix("CAP_")


def _bit(name: str) -> int:
    if name not in CAPABILITIES:
        raise ContainerRuntimeError(f'unknown capability "CAP_{name}"')
    return 1 << CAPABILITIES.index(name)


def _is_user(fields: Sequence[str], uid: int, name: str) -> bool:
    if len(fields) < 4 or not fields[2].isdecimal():
        return False
    return fields[0] == name if name else int(fields[2]) == uid


def _group_of(group: Sequence[Sequence[str]], name: str) -> int:
    if name.isdecimal():
        return int(name)
    for fields in group:
        if len(fields) > 2 and fields[0] == name and fields[2].isdecimal():
            return int(fields[2])
    raise ContainerRuntimeError(f"unable to find group {name}: no matching entries in group file")


def _lines(root: Path, path: str) -> list[str]:
    """The lines of a file of the image, which is not to lead outside of it."""
    directory = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.fdopen(syscalls.open_in_root(directory, path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []
    finally:
        os.close(directory)
