"""Records which containers the fake runtime of a node started and stopped, in order, for good.

A pod's own record ends with the pod; whether a container was ever stopped, and begun anew, stays to be read
here: one JSON line per start or end.
"""

from datetime import datetime
from pathlib import Path

from kubeskew.apimachinery.clock import micro_timestamp
from kubeskew.kubelet.containers.journal import Journal
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles

FILE_NAME = "events.jsonl"
STARTED, STOPPED, EXITED = "started", "stopped", "exited"


class ContainerEvents:
    """Appends to the log in the runtime's directory: STOPPED by the kubelet, EXITED by itself."""

    def __init__(self, directory: Path, files: StateFiles = UNJOURNALLED) -> None:
        self._journal = Journal(directory / FILE_NAME, files)

    def append(self, what: str, sandbox: Sandbox, container: Container, now: datetime) -> None:
        """Note that a container is started, or is to end at the time that it says itself."""
        self._journal.append(
            {
                "time": micro_timestamp(now),
                "event": what,
                "namespace": sandbox.namespace,
                "pod": sandbox.name,
                "podUID": sandbox.pod_uid,
                "container": container.name,
                "id": container.container_id,
                "restartCount": container.attempt,
                "cdiDevices": container.cdi_devices,
                "endsAt": None if container.ends_at is None else micro_timestamp(container.ends_at),
                "exitCode": container.exit_code,
            }
        )
