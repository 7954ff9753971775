"""Keeps what CRI's clients asked for: the requests of sandboxes and containers, with what became of them.

The runtime keeps what runs. Labels, annotations and mounts, containers that are not started, and the last
status of those that the runtime has forgotten, are kept here, a file for each, so that a server that starts
again answers as before.
"""

import base64
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

_REMOVED = "removed"


@dataclass(slots=True)
class SandboxRecord:
    """A sandbox by its id, which is the runtime's."""

    id: str
    request: messages.PodSandboxConfig
    created_at: int  # nanoseconds since 1970

    @property
    def pod_uid(self) -> str:
        return self.request.metadata.uid


@dataclass(slots=True)
class ContainerRecord:
    """A container by its id; `runtime_id` is the runtime's once it was started."""

    id: str
    sandbox: str
    request: messages.ContainerConfig
    status: messages.ContainerStatus  # the last one seen
    runtime_id: str = ""


class Records:
    """The records of one node, in the order in which they were made."""

    def __init__(self, directory: Path, files: StateFiles) -> None:
        self._directory = directory
        self._files = files
        self.sandboxes: dict[str, SandboxRecord] = {}
        self.containers: dict[str, ContainerRecord] = {}
        self.removed: set[str] = set()  # by the runtime's ids: it keeps them for a while

    def load(self) -> None:
        """Reads the records that are there; a file that a crash of the machine left in part is removed."""
        sandboxes = [
            SandboxRecord(
                path.stem, messages.PodSandboxConfig.FromString(_bytes(found["request"])), found["created_at"]
            )
            for path, found in self._found("sandboxes")
        ]
        containers = [
            ContainerRecord(
                path.stem,
                found["sandbox"],
                messages.ContainerConfig.FromString(_bytes(found["request"])),
                messages.ContainerStatus.FromString(_bytes(found["status"])),
                found["runtime_id"],
            )
            for path, found in self._found("containers")
        ]
        self.sandboxes = {one.id: one for one in sorted(sandboxes, key=lambda one: (one.created_at, one.id))}
        self.containers = {
            one.id: one for one in sorted(containers, key=lambda one: (one.status.created_at, one.id))
        }

        folder = self._directory / _REMOVED
        self.removed = {path.stem for path in folder.glob("*.json")} if folder.is_dir() else set()

    def _found(self, kind: str) -> list[tuple[Path, dict[str, Any]]]:
        folder = self._directory / kind
        found = []
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            try:
                found.append((path, orjson.loads(self._files.read(path) or b"")))
            except orjson.JSONDecodeError:  # a part is left after a crash of the machine
                self._files.remove(path)
        return found

    def keep_sandbox(self, record: SandboxRecord) -> None:
        """Adds or changes a sandbox; on disk when it returns."""
        self.sandboxes[record.id] = record
        content = {"request": _text(record.request), "created_at": record.created_at}
        self._files.write(self._path("sandboxes", record.id), orjson.dumps(content))

    def keep_container(self, record: ContainerRecord) -> None:
        """Adds or changes a container; on disk when it returns."""
        self.containers[record.id] = record
        content = {
            "sandbox": record.sandbox,
            "request": _text(record.request),
            "status": _text(record.status),
            "runtime_id": record.runtime_id,
        }
        self._files.write(self._path("containers", record.id), orjson.dumps(content))

    def drop_sandbox(self, identifier: str) -> None:
        if self.sandboxes.pop(identifier, None) is not None:
            self._files.remove(self._path("sandboxes", identifier))

    def drop_container(self, identifier: str) -> None:
        """Removes a container; the runtime's own record of it counts for nothing from now on."""
        record = self.containers.pop(identifier, None)
        if record is None:
            return
        if record.runtime_id:
            self.removed.add(record.runtime_id)
            self._files.write(self._path(_REMOVED, record.runtime_id), b"{}")
        self._files.remove(self._path("containers", identifier))

    def forget_removed(self, kept: Collection[str]) -> None:
        """Forgets removed containers but those that the runtime keeps."""
        for identifier in sorted(self.removed.difference(kept)):
            self.removed.remove(identifier)
            self._files.remove(self._path(_REMOVED, identifier))

    def containers_of(self, sandbox: str) -> list[ContainerRecord]:
        return [record for record in self.containers.values() if record.sandbox == sandbox]

    def _path(self, kind: str, identifier: str) -> Path:
        return self._directory / kind / f"{identifier}.json"


def _text(message: messages.PodSandboxConfig | messages.ContainerConfig | messages.ContainerStatus) -> str:
    return base64.b64encode(message.SerializeToString()).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
