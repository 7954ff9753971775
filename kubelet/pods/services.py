"""The parts of one node's kubelet that a pod worker uses, passed as one value."""

from dataclasses import dataclass
from pathlib import Path

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.allocation.state import PodAllocations
from kubeskew.kubelet.containers.pod_volumes import PodContents
from kubeskew.kubelet.containers.runtime import FakeRuntime
from kubeskew.kubelet.device_managers import DevicePlugins, PodDevices
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.pods.backoff import CrashBackoff
from kubeskew.kubelet.resourcemanagers.managers import ResourceManagers
from kubeskew.kubelet.status.status_manager import StatusWriter


@dataclass(frozen=True, slots=True)
class NodeServices:
    """The services of one node."""

    node_name: str
    host_ip: str
    clock: Clock
    features: KubeletFeatures
    runtime: FakeRuntime
    statuses: StatusWriter
    recorder: EventRecorder
    backoff: CrashBackoff
    devices: PodDevices
    plugins: DevicePlugins
    managers: ResourceManagers
    allocations: PodAllocations
    cdi: Path  # the directory of CDI specs
    metrics: KubeletMetrics
    contents: PodContents
