"""Groups pending pods that are alike: of one controller, with equal labels and specs.

Source: cluster-autoscaler 1.35, core/scaleup/equivalence/groups.go; utils/utils.go.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kubeskew.apimachinery.claim_users import controller_of
from kubeskew.scheduler.framework.pod_info import PodInfo

_MOST_OF_CONTROLLER = 10  # groups; further pods form groups of one

DAEMON_SET_ANNOTATION = "cluster-autoscaler.kubernetes.io/daemonset-pod"


def is_daemon_set_pod(pod: PodInfo) -> bool:
    """Returns whether a DaemonSet manages the pod, or an annotation says that it counts as such."""
    owner = controller_of(pod.pod)
    if owner is not None and owner.get("kind") == "DaemonSet":
        return True
    return (pod.pod["metadata"].get("annotations") or {}).get(DAEMON_SET_ANNOTATION) == "true"


def groups(pods: Iterable[PodInfo]) -> list[list[PodInfo]]:
    """Returns the groups in the order of their first pods; a pod without a controller is alone in one."""
    made: list[list[PodInfo]] = []
    known: dict[str, dict[str, list[PodInfo]]] = {}  # by controller and sign
    for pod in pods:
        owner = controller_of(pod.pod)
        if owner is None or is_daemon_set_pod(pod):
            made.append([pod])
            continue
        of_owner, own = known.setdefault(owner["uid"], {}), sign(pod)
        if own in of_owner:
            of_owner[own].append(pod)
            continue
        group = [pod]
        made.append(group)
        if len(of_owner) < _MOST_OF_CONTROLLER:
            of_owner[own] = group
    return made


class RejectedPods:
    """Remembers pods that fit nowhere, so that those like them need not be tried."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, None]] = {}  # by controller

    def has_like(self, pod: PodInfo) -> bool:
        owner = controller_of(pod.pod)
        return owner is not None and owner["uid"] in self._known and sign(pod) in self._known[owner["uid"]]

    def add(self, pod: PodInfo) -> None:
        owner = controller_of(pod.pod)
        if owner is None or is_daemon_set_pod(pod):
            return
        of_owner = self._known.setdefault(owner["uid"], {})
        if len(of_owner) < _MOST_OF_CONTROLLER:
            of_owner[sign(pod)] = None


def sign(pod: PodInfo) -> str:
    """Returns a text that is equal for pods with equal labels and specs.

    Projected volumes, environments and host names are left out: they differ from pod to pod.
    """
    spec = {name: value for name, value in pod.spec.items() if name != "hostname"}
    volumes = spec.get("volumes") or ()
    projected = {volume["name"] for volume in volumes if volume.get("projected") is not None}
    spec["volumes"] = [volume for volume in volumes if volume["name"] not in projected]
    for kind in ("containers", "initContainers"):
        spec[kind] = [_reduced(container, projected) for container in spec.get(kind) or ()]
    return json.dumps([pod.labels, spec], sort_keys=True)


def _reduced(container: Mapping[str, Any], projected: set[str]) -> dict[str, Any]:
    mounts = [mount for mount in container.get("volumeMounts") or () if mount["name"] not in projected]
    rest = {name: value for name, value in container.items() if name not in ("env", "volumeMounts")}
    return {**rest, "volumeMounts": mounts}
