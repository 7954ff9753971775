"""Records which containers the simulated runtime of a node started and stopped, in order, for good.

A pod's own record ends with the pod; whether a container was ever stopped, and begun anew, stays to be read
here: one JSON line per start or end. An end that was known at the start, its `endsAt`, has no line of its
own. The line of a start says what the container had inside: `cdiDevices`, the CDI devices that the kubelet
asked for; `injected`, what each of them was by the specs of that moment,

    {"name": "gpu.example.com/claim=UID-REQUEST", "env": {…}, "nodes": [paths], "mounts": [paths]}

and `env`, the variables with which its program began.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from kubeskew.apimachinery.clock import micro_timestamp
from kubeskew.kubelet.containers.journal import Entry, Journal
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.device_managers import CDIDevice
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles

FILE_NAME = "events.jsonl"
STARTED, STOPPED, EXITED = "started", "stopped", "exited"


class ContainerEvents:
    """Appends to the log in the runtime's directory: STOPPED by the kubelet, EXITED by itself."""

    def __init__(self, directory: Path, files: StateFiles = UNJOURNALLED) -> None:
        self._journal = Journal(directory / FILE_NAME, files)

    def started(
        self, sandbox: Sandbox, container: Container, injected: Sequence[CDIDevice], now: datetime
    ) -> None:
        """Notes that a container is started, with the CDI devices that were put into it."""
        entry = _entry(STARTED, sandbox, container, now)
        inside = {"injected": [device._asdict() for device in injected], "env": container.env}
        self._journal.append({**entry, **inside})

    def ended(self, what: str, sandbox: Sandbox, container: Container, now: datetime) -> None:
        """Notes that a container is to end at the time that it says itself."""
        self._journal.append(_entry(what, sandbox, container, now))


def _entry(what: str, sandbox: Sandbox, container: Container, now: datetime) -> Entry:
    return {
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
