"""What a pod worker works with: the parts of one node's kubelet, passed as one value."""

from dataclasses import dataclass
from pathlib import Path

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.backoff import CrashBackoff
from kubeskew.kubelet.behaviour import Behaviour
from kubeskew.kubelet.contents import PodContents
from kubeskew.kubelet.devices import DevicePlugins, PodDevices
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.runtime import FakeRuntime
from kubeskew.kubelet.status_writer import StatusWriter


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
