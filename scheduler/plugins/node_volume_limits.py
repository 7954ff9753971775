"""NodeVolumeLimits: no more volumes of a CSI driver than its node can attach.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits/csi.go, 1.36.
"""

from collections.abc import Mapping, Sequence

from kubeskew.apimachinery.client.refs import CSI_NODES
from kubeskew.apimachinery.volume_matching import class_of
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.interfaces import CycleState, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo, uses_claim
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, unschedulable
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.volumes import Volumes

NAME = "NodeVolumeLimits"

_TOO_MANY = unschedulable("node(s) exceed max volume count")


class NodeVolumeLimits:
    name = NAME

    def __init__(self, handle: Handle) -> None:
        self._volumes = Volumes(handle)
        self._csi_nodes = handle.informer(CSI_NODES)

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(EventResource.CSI_NODE, Action.ADD | Action.UPDATE)),
            EventHint(ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)),
            EventHint(ClusterEvent(EventResource.CLAIM, Action.ADD), uses_claim),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        return PreFilterResult(SUCCESS if pod.volume_claims else SKIP)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        found = self._csi_nodes.get("", node.name)
        drivers = ((found or {}).get("spec") or {}).get("drivers") or ()
        limits = {
            driver["name"]: driver["allocatable"]["count"]
            for driver in drivers
            if (driver.get("allocatable") or {}).get("count") is not None
        }
        if not limits:
            return SUCCESS
        wanted = self._attached(pod)
        present: dict[str, str] = {}
        for other in node.pods.values():
            present |= self._attached(other)
        for driver, limit in limits.items():
            new = sum(1 for volume, by in wanted.items() if by == driver and volume not in present)
            if new and new + sum(1 for by in present.values() if by == driver) > limit:
                return _TOO_MANY
        return SUCCESS

    def _attached(self, pod: PodInfo) -> Mapping[str, str]:
        """Drivers by the volumes that the pod needs on its node."""
        found: dict[str, str] = {}
        for name in pod.volume_claims:
            claim = self._volumes.claim(pod.namespace, name)
            if claim is None:
                continue
            volume = self._volumes.volume(claim["spec"].get("volumeName") or "")
            if volume is not None:
                if csi := volume["spec"].get("csi"):
                    found[f"{csi['driver']}/{csi['volumeHandle']}"] = csi["driver"]
                continue
            provisioner = (self._volumes.storage_class(class_of(claim)) or {}).get("provisioner")
            if provisioner:
                found[f"{provisioner}/{pod.namespace}/{name}"] = provisioner
        return found
