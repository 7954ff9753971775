"""What a pod worker works with: the parts of one node's kubelet, passed as one value."""

from dataclasses import dataclass
from pathlib import Path

from apimachinery.client.recorder import EventRecorder
from apimachinery.clock import Clock
from kubelet.backoff import CrashBackoff
from kubelet.behaviour import Behaviour
from kubelet.contents import PodContents
from kubelet.devices import DevicePlugins, PodDevices
from kubelet.metrics import KubeletMetrics
from kubelet.runtime import FakeRuntime
from kubelet.status_writer import StatusWriter


@dataclass(frozen=True, slots=True)
class NodeServices:
    """One node's."""

    node_name: str
    host_ip: str
    clock: Clock
    behaviour: Behaviour
    runtime: FakeRuntime
    statuses: StatusWriter
    recorder: EventRecorder
    backoff: CrashBackoff
    devices: PodDevices
    plugins: DevicePlugins
    cdi: Path  # the directory of CDI specs
    metrics: KubeletMetrics
    contents: PodContents
