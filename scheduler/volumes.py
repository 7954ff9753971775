"""Reads a pod's volume claims and the volumes behind them.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding, 1.36.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import (
    CSI_NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Ref,
)
from kubeskew.apimachinery.objects import Object, is_controlled_by
from kubeskew.apimachinery.selectors.nodes import selector_matches
from kubeskew.apimachinery.volume_matching import BIND_COMPLETED, annotation, class_of
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventResource
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.queue import SchedulingQueue

_WATCHED = {
    PERSISTENT_VOLUME_CLAIMS: EventResource.CLAIM,
    PERSISTENT_VOLUMES: EventResource.VOLUME,
    STORAGE_CLASSES: EventResource.STORAGE_CLASS,
    CSI_NODES: EventResource.CSI_NODE,
}


_NOT_FOUND = 'persistentvolumeclaim "{}" not found'
_TO_BE_MADE = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "{}"'


class ClaimUnusable(ValueError):  # noqa: N818 - a state of the claim
    """A claim that the pod cannot be scheduled with; the text is upstream's."""


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """A pod's claims, by the work that they leave to the scheduler."""

    bound: tuple[Object, ...]
    delayed: tuple[Object, ...]  # bound once the pod's node is known
    immediate: tuple[Object, ...]  # unbound, and not for the scheduler to bind


class Volumes:
    def __init__(self, handle: Handle) -> None:
        self._claims = handle.informer(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = handle.informer(PERSISTENT_VOLUMES)
        self._classes = handle.informer(STORAGE_CLASSES)

    def all(self) -> list[Object]:
        return self._volumes.list()

    def volume(self, name: str) -> Object | None:
        return self._volumes.get("", name)

    def claim(self, namespace: str, name: str) -> Object | None:
        return self._claims.get(namespace, name)

    def storage_class(self, name: str) -> Object | None:
        return self._classes.get("", name) if name else None

    def claims_of(self, pod: PodInfo) -> Iterator[Object]:
        """Raises ClaimUnusable for a claim that is missing or cannot be used."""
        for volume in pod.spec.get("volumes") or ():
            ephemeral = bool(volume.get("ephemeral"))
            if not ephemeral and not volume.get("persistentVolumeClaim"):
                continue
            name = (
                f"{pod.name}-{volume['name']}" if ephemeral else volume["persistentVolumeClaim"]["claimName"]
            )
            claim = self._claims.get(pod.namespace, name)
            if claim is None:
                raise ClaimUnusable((_TO_BE_MADE if ephemeral else _NOT_FOUND).format(name))
            _check(claim, pod, must_be_owned=ephemeral)
            yield claim

    def of_pod(self, pod: PodInfo) -> PodVolumes:
        """Raises ClaimUnusable."""
        bound: list[Object] = []
        delayed: list[Object] = []
        immediate: list[Object] = []
        for claim in self.claims_of(pod):
            if is_bound(claim):
                bound.append(claim)
            elif not claim["spec"].get("volumeName") and self.waits_for_consumer(claim):
                delayed.append(claim)
            else:
                immediate.append(claim)
        return PodVolumes(tuple(bound), tuple(delayed), tuple(immediate))

    def waits_for_consumer(self, claim: Object) -> bool:
        found = self.storage_class(class_of(claim))
        return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"


def is_bound(claim: Object) -> bool:
    return bool(claim["spec"].get("volumeName")) and annotation(claim, BIND_COMPLETED) is not None


def fits_node(volume: Object, node: NodeInfo) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return required is None or selector_matches(required, node.labels, node.name)


def _check(claim: Object, pod: PodInfo, *, must_be_owned: bool) -> None:
    metadata, name = claim["metadata"], claim["metadata"]["name"]
    if (claim.get("status") or {}).get("phase") == "Lost":
        volume = claim["spec"].get("volumeName") or ""
        raise ClaimUnusable(
            f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
        )
    if metadata.get("deletionTimestamp"):
        raise ClaimUnusable(f'persistentvolumeclaim "{name}" is being deleted')
    if must_be_owned and not is_controlled_by(claim, pod.pod):
        raise ClaimUnusable(
            f"PVC {pod.namespace}/{name} was not created for pod {pod.key} (pod is not owner)"
        )


def connect(factory: InformerFactory, queue: SchedulingQueue) -> None:
    """Events of claims, volumes, classes and CSI nodes are reported to the queue."""
    for ref, resource in _WATCHED.items():
        _connect(factory, queue, ref, resource)


def _connect(factory: InformerFactory, queue: SchedulingQueue, ref: Ref, resource: EventResource) -> None:
    added = ClusterEvent(resource, Action.ADD)
    updated = ClusterEvent(resource, Action.UPDATE)
    deleted = ClusterEvent(resource, Action.DELETE)
    factory.informer(ref).add_handler(
        lambda obj: queue.move_all_to_active_or_backoff_queue(added, None, obj),
        lambda old, obj: queue.move_all_to_active_or_backoff_queue(updated, old, obj),
        lambda obj: queue.move_all_to_active_or_backoff_queue(deleted, obj, None),
    )
