"""VolumeBinding: a pod goes where its volumes are; claims that wait for it get volumes there.

Storage capacity is not checked: nothing is provisioned here.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding, 1.36.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.client.refs import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, MERGE_PATCH
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.volume_matching import (
    BOUND_BY_CONTROLLER,
    annotated,
    annotation,
    best,
    claim_reference,
    class_of,
)
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.interfaces import CycleState, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo, uses_claim
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Code, Status, failed, unresolvable
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.volumes import ClaimUnusable, PodVolumes, Volumes, fits_node, is_bound

NAME = "VolumeBinding"

_UNBOUND = unresolvable("pod has unbound immediate PersistentVolumeClaims")
_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
_VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")
_BIND_SECONDS = 600.0  # VolumeBindingArgs.bindTimeoutSeconds
_LOOK_SECONDS = 0.1


@dataclass(slots=True)
class _Choice:
    """The changes to the claims for one node."""

    volumes: list[tuple[Object, Object]] = field(default_factory=list)  # claim, and the volume it gets
    provisioned: list[Object] = field(default_factory=list)


@dataclass(slots=True)
class _State:
    volumes: PodVolumes
    choices: dict[str, _Choice] = field(default_factory=dict)


class VolumeBinding:
    name = NAME

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        """`args` are VolumeBindingArgs."""
        self._handle = handle
        self._volumes = Volumes(handle)
        self._node_conflict = handle.features.volume_node_conflict
        self._seconds = float(args.get("bindTimeoutSeconds") or _BIND_SECONDS)
        self._assumed: dict[str, str] = {}  # volume → uid of the claim that will get it

    def events_to_register(self) -> Sequence[EventHint]:
        changed = Action.ADD | Action.UPDATE
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return (
            EventHint(ClusterEvent(EventResource.STORAGE_CLASS, changed)),
            EventHint(ClusterEvent(EventResource.CLAIM, changed), uses_claim),
            EventHint(ClusterEvent(EventResource.VOLUME, changed)),
            EventHint(ClusterEvent(EventResource.NODE, nodes)),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        if not pod.volume_claims:
            return PreFilterResult(SKIP)
        try:
            found = self._volumes.of_pod(pod)
        except ClaimUnusable as error:
            return PreFilterResult(unresolvable(str(error)))
        if found.immediate:
            return PreFilterResult(_UNBOUND)
        state.write(NAME, _State(found))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        own: _State = state.read(NAME)
        reasons = []
        missing = conflict = False
        for claim in own.volumes.bound:
            volume = self._volumes.volume(claim["spec"]["volumeName"])
            missing = missing or volume is None
            conflict = conflict or (volume is not None and not fits_node(volume, node))
        if conflict and not missing:
            reasons.append(self._node_conflict)
        choice = self._choose(own.volumes.delayed, node)
        if choice is None:
            reasons.append(_BIND_CONFLICT)
        if missing:
            reasons.append(_VOLUME_MISSING)
        if reasons or choice is None:
            return Status(Code.UNRESOLVABLE, tuple(reasons), NAME)
        own.choices[node.name] = choice
        return SUCCESS

    def _choose(self, claims: Sequence[Object], node: NodeInfo) -> _Choice | None:
        """Every claim needs a volume or a provisioner; None if one has neither."""
        choice = _Choice()
        taken: set[str] = set()
        for claim in claims:
            selected = annotation(claim, _SELECTED_NODE)
            if selected is not None:
                if selected != node.name:
                    return None
                choice.provisioned.append(claim)
                continue
            free = [
                volume
                for volume in self._volumes.all()
                if volume["metadata"]["name"] not in taken
                and self._assumed.get(volume["metadata"]["name"]) in (None, claim["metadata"].get("uid"))
                and fits_node(volume, node)
            ]
            volume = best(free, claim, delayed=False)
            if volume is not None:
                taken.add(volume["metadata"]["name"])
                choice.volumes.append((claim, volume))
            elif self._can_be_provisioned(claim, node):
                choice.provisioned.append(claim)
            else:
                return None
        return choice

    def _can_be_provisioned(self, claim: Object, node: NodeInfo) -> bool:
        found = self._volumes.storage_class(class_of(claim)) or {}
        if (found.get("provisioner") or "") in _NO_PROVISIONER:
            return False
        terms = found.get("allowedTopologies") or ()
        return not terms or any(
            all(
                node.labels.get(expression["key"]) in expression["values"]
                for expression in term.get("matchLabelExpressions") or ()
            )
            for term in terms
        )

    # -- taking and writing

    async def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        own: _State | None = state.read(NAME)
        for claim, volume in own.choices[node].volumes if own is not None else ():
            self._assumed[volume["metadata"]["name"]] = claim["metadata"]["uid"]
        return SUCCESS

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        self._forget(state.read(NAME), node)

    def _forget(self, own: _State | None, node: str) -> None:
        choice = own.choices.get(node) if own is not None else None
        for _, volume in choice.volumes if choice is not None else ():
            self._assumed.pop(volume["metadata"]["name"], None)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        own: _State | None = state.read(NAME)
        if own is None or not own.volumes.delayed:
            return SUCCESS
        try:
            await self._write(own.choices[node], node)
            await self._wait(own.volumes.delayed)
        except (StatusError, *CONNECTION_ERRORS) as error:
            return failed(f"binding volumes: {error}")
        self._forget(own, node)
        return SUCCESS

    async def _write(self, choice: _Choice, node: str) -> None:
        client = self._handle.client
        for claim, volume in choice.volumes:
            if (volume["spec"].get("claimRef") or {}).get("uid"):
                continue
            changed = {**volume, "spec": {**volume["spec"], "claimRef": claim_reference(claim)}}
            if volume["spec"].get("claimRef") is None:
                changed = annotated(changed, BOUND_BY_CONTROLLER)
            await client.update(PERSISTENT_VOLUMES, changed)
        for claim in choice.provisioned:
            if annotation(claim, _SELECTED_NODE) is None:
                metadata = claim["metadata"]
                patch = {"metadata": {"annotations": {_SELECTED_NODE: node}}}
                await client.patch(
                    PERSISTENT_VOLUME_CLAIMS, metadata["name"], metadata["namespace"], patch, MERGE_PATCH
                )

    async def _wait(self, claims: Sequence[Object]) -> None:
        """Waits until the controller has bound the claims; raises TimeoutError."""
        clock = self._handle.clock
        end = clock.monotonic() + self._seconds
        while True:
            keys = [(claim["metadata"]["namespace"], claim["metadata"]["name"]) for claim in claims]
            current = [self._volumes.claim(*key) for key in keys]
            if all(claim is not None and is_bound(claim) for claim in current):
                return
            if clock.monotonic() >= end:
                raise TimeoutError("context deadline exceeded")
            await clock.sleep(_LOOK_SECONDS)
