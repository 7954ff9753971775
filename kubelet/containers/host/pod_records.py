"""The records of a node's pods: a file each, with the sandbox, its containers and what it was asked for.

A runtime that is made again on the same directory has them. The ends of containers that happen meanwhile are
files of the shim until a record has them.
"""

import contextlib
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.host.shim_record import CONTAINERS, EXITS
from kubeskew.kubelet.containers.runtime_service import PodSandboxConfig
from kubeskew.kubelet.containers.sandbox import Container, Sandbox, sandbox_from
from kubeskew.kubelet.files import UNJOURNALLED

log = logging.getLogger(__name__)

UNKNOWN_END = {"code": 255, "time": "", "reason": "Unknown"}  # as containerd has it for one that it lost


class PodRecords:
    """The sandboxes of one node by their pods' UIDs, and the places of their files."""

    def __init__(self, directory: Path, node_name: str) -> None:
        self._directory = directory
        self._node_name = node_name
        self._sandboxes: dict[str, Sandbox] = {}
        self._configs: dict[str, Object] = {}  # what a sandbox was asked for

    def load(self) -> None:
        for path in sorted((self._directory / "pods").glob("*.json")):
            content = UNJOURNALLED.read(path)
            if not content:
                path.unlink(missing_ok=True)
                continue
            record = orjson.loads(content)
            self._configs[path.stem] = record["config"]
            self._sandboxes[path.stem] = sandbox_from(record["sandbox"])

    def sandboxes(self) -> Sequence[Sandbox]:
        return [*self._sandboxes.values()]

    def sandbox(self, pod_uid: str) -> Sandbox | None:
        return self._sandboxes.get(pod_uid)

    def config(self, pod_uid: str) -> Object:
        """The part of a sandbox's configuration that its containers need; empty without a sandbox."""
        return self._configs.get(pod_uid) or {}

    def container(self, identifier: str) -> tuple[Sandbox, Container] | None:
        for sandbox in self._sandboxes.values():
            for container in sandbox.containers:
                if container.id == identifier:
                    return sandbox, container
        return None

    # -- changes

    def add(self, sandbox: Sandbox, config: PodSandboxConfig) -> None:
        self._sandboxes[sandbox.pod_uid] = sandbox
        self._configs[sandbox.pod_uid] = {
            "logs": str(config.log_directory),
            "hostNetwork": config.host_network,
            "sysctls": dict(config.sysctls),
        }
        self.save(sandbox)

    def save(self, sandbox: Sandbox) -> None:
        if sandbox.pod_uid in self._configs:
            record = {"config": self._configs[sandbox.pod_uid], "sandbox": sandbox}
            try:
                UNJOURNALLED.write(
                    self._record(sandbox.pod_uid), orjson.dumps(record, option=orjson.OPT_INDENT_2)
                )
            except OSError as error:  # such as a full disk: the kubelet goes on with what it knows
                log.warning("node %s: the record of a pod cannot be written: %s", self._node_name, error)
                return
        for container in sandbox.containers:
            if container.ends_at is not None:
                self.forget_end(container.id)

    def remove(self, pod_uid: str) -> None:
        self._sandboxes.pop(pod_uid, None)
        self._configs.pop(pod_uid, None)
        UNJOURNALLED.remove(self._record(pod_uid))

    # -- places

    def log(self, sandbox: Sandbox, container: Container) -> Path:
        logs = self.config(sandbox.pod_uid).get("logs") or self.files(sandbox.pod_uid) / "logs"
        return Path(logs) / container.name / f"{container.attempt}.log"

    def files(self, pod_uid: str) -> Path:
        """The directory of the files that a sandbox gives its containers."""
        return self._directory / "sandboxes" / pod_uid

    def layer(self, container: Container) -> Path:
        """The directory of what a container writes to its root."""
        return self._directory / CONTAINERS / container.id

    def _record(self, pod_uid: str) -> Path:
        return self._directory / "pods" / f"{pod_uid}.json"

    # -- ends that the shim has kept

    def kept_end(self, container_id: str) -> Mapping[str, Any]:
        """The end that the shim has kept, or that of a container that ended with its shim."""
        content = UNJOURNALLED.read(self._end(container_id))
        if content:
            with contextlib.suppress(ValueError):
                end: Mapping[str, Any] = json.loads(content)
                return end
        return UNKNOWN_END

    def forget_end(self, container_id: str) -> None:
        self._end(container_id).unlink(missing_ok=True)

    def _end(self, container_id: str) -> Path:
        return self._directory / EXITS / f"{container_id}.json"
