"""Admission of pods to a node, what their containers are given, and the resizing of pods in place.

A pod that is bound to the node is checked as kubelet/lifecycle/predicate.go and scheduler.AdmissionCheck do.

What pods were given is kept over restarts of the kubelet with in-place resizing. Up to 1.32 the status
manager keeps it, up to 1.31 with what became of resizes that are not done. Since 1.33 the allocation manager
does, and what containers were started or resized with (pkg/kubelet/allocation). Without the gate nothing is
read or written. The fake runtime gives what is allocated at once, so a resize is never seen in progress.

Sources: pkg/kubelet/allocation/allocation_manager.go, kuberuntime_manager.go (computePodResizeAction), 1.36.
"""

import copy
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import (
    conflicts,
    host_ports,
    is_dra_extended_resource,
    is_extended_resource,
    is_sidecar,
)
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.selectors.nodes import affinity_matches, untolerated
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.checkpoints import pod_allocations
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError, PanicError
from kubeskew.kubelet.checkpoints.pod_allocations import AllocationForm, PodsState, Resources
from kubeskew.kubelet.features import AdmissionFeatures, DelegatedToDRA, KubeletFeatures
from kubeskew.kubelet.files import StateFiles

log = logging.getLogger(__name__)

STATUS_MANAGER = "pod_status_manager_state"
ALLOCATED, ACTUATED = "allocated_pods_state", "actuated_pods_state"
_ONE_FILE = (AllocationForm.STRUCTS, AllocationForm.TEXT)
_DEFAULTED = ("cpu", "memory")
NODE_AFFINITY = "NodeAffinity"  # the reason of a pod that asks for another node

_OS_LABEL, _OS = "kubernetes.io/os", "linux"
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_MUTABLE = ("cpu", "memory")
INFEASIBLE, DEFERRED = "Infeasible", "Deferred"
RETRY_SECONDS = 10.0  # seconds until a deferred resize is tried again


class StateFile:
    """One checkpoint file and its state, which is newer than the file until `save`."""

    def __init__(self, path: Path, form: AllocationForm, files: StateFiles) -> None:
        self.state = PodsState()
        self.name = path.name
        self._path = path
        self.form = form
        self._files = files
        self._content = b""  # as it was read or written last

    def load(self) -> None:
        """Raises PanicError."""
        content = self._files.read(self._path)
        if content is None:
            if self.form in _ONE_FILE:
                self.save()
            return
        try:
            self.state = pod_allocations.decode(content, self.form)
        except (CheckpointError, AttributeError, TypeError, ValueError) as error:
            kind = "pod allocation" if self.form in _ONE_FILE else "pod resource information"
            raise PanicError(
                f"could not restore state from checkpoint: {error}, please drain this node and delete {kind} "
                f'checkpoint file "/var/lib/kubelet/{self._path.name}" before restarting Kubelet'
            ) from error
        self._content = content

    def save(self) -> None:
        content = pod_allocations.encode(self.state, self.form)
        if content != self._content:
            self._files.write(self._path, content, synced=True)
            self._content = content


class PodAllocations:
    """The allocations of one node's pods. Call `load` first."""

    def __init__(self, directory: Path, features: KubeletFeatures, files: StateFiles) -> None:
        self._form = features.allocation_form
        self._zeros = features.restores_missing_as_zero
        self._goes_on = features.admission.admits_without_checkpoint
        self._pod_level = features.pod_level.noted
        kept = state_files(directory, features, files)
        self._allocated, self._actuated = [*kept, None, None][:2]
        self._given: dict[
            str, tuple[Mapping[str, Resources], Resources]
        ] = {}  # by pod UID; containers', pod's

    def load(self) -> None:
        """Loads what the last kubelet stored. Raises CheckpointError, and the kubelet does not start."""
        for file in (self._allocated, self._actuated):
            if file is not None:
                file.load()

    def of(self, pod: Object) -> Mapping[str, Resources]:
        """Resources stand under their container's name; a pod that is not known has none.

        Up to 1.31 requests alone are kept; the rest is what the pod asks for now.
        """
        if self._allocated is None:
            return {}
        known = self._allocated.state.allocated.get(pod_spec.uid_of(pod), {})
        if self._allocated.form is not AllocationForm.STRUCTS:
            return known
        asked = resources_of(pod, self._allocated.form)
        return {name: _with_requests(asked.get(name, {}), given) for name, given in known.items()}

    def decide(self, uid: str, status: str) -> None:
        """Stores the status of a pod's resize: Deferred, Infeasible, or empty if none waits any more.

        Since 1.32 no file has it.
        """
        if self._allocated is None or self._allocated.form is not AllocationForm.STRUCTS:
            return
        statuses = self._allocated.state.resize_statuses
        if status:
            statuses[uid] = status
        else:
            statuses.pop(uid, None)
        self._allocated.save()

    def give(self, pod: Object) -> None:
        """Stores that the containers are given what the pod asks for now.

        Raises OSError if that cannot be written, and nothing is given then; by a bug (issue 141206) it is all
        the same, and not written until the next change.
        """
        if self._allocated is None:
            return
        uid, resources = pod_spec.uid_of(pod), resources_of(pod, self._allocated.form)
        whole = pod["spec"].get("resources") or {} if self._pod_level else {}
        if self._given.get(uid) == (resources, whole):
            return
        allocated = self._allocated.state.allocated
        known = allocated.get(uid, {})
        pod_level = self._allocated.state.pod_level
        known_whole = pod_level.get(uid)
        _set(pod_level, uid, whole)
        allocated[uid] = {
            name: _with_zeros(asked) if self._zeros and name in known else asked
            for name, asked in resources.items()
        }
        try:
            self._allocated.save()
        except OSError as error:
            if not self._goes_on:
                _set(allocated, uid, known)
                _set(pod_level, uid, known_whole)
                raise
            log.error("cannot write what pod %s was given: %s", uid, error)
        self._given[uid] = resources, whole

    def actuate(self, pod: Object, container: Object) -> None:
        """Stores that a container runs with the resources that it was given, and its pod with those of the
        whole."""
        if self._actuated is None:
            return
        uid, state = pod_spec.uid_of(pod), self._actuated.state
        of_pod = state.allocated.setdefault(uid, {})
        resources = dict(container.get("resources") or {})
        whole = pod["spec"].get("resources") or {}
        sized = bool(whole.get("requests") or whole.get("limits"))
        if of_pod.get(container["name"]) == resources and (not sized or state.pod_level.get(uid) == whole):
            return
        of_pod[container["name"]] = resources
        if sized:
            state.pod_level[uid] = whole
        self._actuated.save()

    def remove(self, uid: str) -> None:
        """Forgets a pod. Since 1.33 the files do so with the next change only."""
        self._given.pop(uid, None)
        for file in (self._allocated, self._actuated):
            if file is not None:
                file.state.resize_statuses.pop(uid, None)
                file.state.pod_level.pop(uid, None)
                if file.state.allocated.pop(uid, None) is not None and self._form in _ONE_FILE:
                    file.save()

    def retain(self, uids: Collection[str]) -> None:
        """Forgets all other pods."""
        files = [file for file in (self._allocated, self._actuated) if file is not None]
        for uid in [uid for file in files for uid in file.state.allocated if uid not in uids]:
            self.remove(uid)


def state_files(directory: Path, features: KubeletFeatures, files: StateFiles) -> list[StateFile]:
    """Files stand in the order in which the kubelet reads them; there are none without the gate."""
    form = features.allocation_form
    return [] if form is None else [StateFile(directory / name, form, files) for name in file_names(form)]


def file_names(form: AllocationForm) -> tuple[str, ...]:
    return (STATUS_MANAGER,) if form in _ONE_FILE else (ALLOCATED, ACTUATED)


def resources_of(pod: Object, form: AllocationForm) -> dict[str, Resources]:
    sidecars = [container for container in pod_spec.init_containers(pod) if is_sidecar(container)]
    containers = [*pod_spec.containers(pod), *(() if form in _ONE_FILE else sidecars)]
    return {container["name"]: dict(container.get("resources") or {}) for container in containers}


def _set(resources: dict[str, Any], uid: str, given: Any) -> None:
    if given:
        resources[uid] = given
    else:
        resources.pop(uid, None)


def _with_requests(asked: Resources, given: Resources) -> Resources:
    rest = {name: value for name, value in asked.items() if name != "requests"}
    return {**rest, **given}


def _with_zeros(resources: Resources) -> Resources:
    """Resources that the container does not request become Go's zero Quantity, as a kubelet of 1.27 has them
    that takes the amounts of a pod it knew from its checkpoint (issue 117589)."""
    requests = resources.get("requests")
    if requests is None:
        return resources
    return {**resources, "requests": {**dict.fromkeys(_DEFAULTED), **requests}}


class Rejection(NamedTuple):
    """`status.reason` of the pod, and the text that follows `Pod was rejected: `."""

    reason: str
    message: str


def admit(
    pod: Object,
    node: Object,
    others: Iterable[Object],
    rules: AdmissionFeatures,
    *,
    plugged: Mapping[str, int] | None = None,
) -> Rejection | None:
    """None means that the node takes the pod next to `others`, its active pods.

    `plugged` is the least number of devices that the node has, for they are in use; its status may have less.
    """
    others = list(others)
    return (
        _operating_system(pod)
        or (_sidecars(pod) if rules.refuses_sidecars else None)
        or (_groups_policy(pod, node) if rules.requires_groups_policy else None)
        or _resource_failures(pod, node, others, plugged or {}, rules.delegated_to_dra)
        or _node_affinity(pod, node)
        or _node_name(pod, node)
        or _host_ports(pod, others, of_sidecars=not rules.overlooks_sidecar_ports)
        or _taints(pod, node)
        or (_pod_level_resources(pod) if rules.refuses_pod_level_resources else None)
        or (_undeclared(pod) if rules.lacks_restarts_of_all else None)
    )


def _operating_system(pod: Object) -> Rejection | None:
    if (pod["metadata"].get("labels") or {}).get(_OS_LABEL, _OS) != _OS:
        text = f"Failed to admit pod as the `{_OS_LABEL}` label doesn't match node label"
        return Rejection("PodOSSelectorNodeLabelDoesNotMatch", text)
    if (pod["spec"].get("os") or {"name": _OS}).get("name") != _OS:
        return Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    return None


def _sidecars(pod: Object) -> Rejection | None:
    """Kubelets of 1.28 to 1.32 with SidecarContainers off refuse a pod with sidecars."""
    for container in filter(is_sidecar, pod_spec.init_containers(pod)):
        text = f'Init container "{container["name"]}" may not have a non-default restartPolicy'
        return Rejection("InitContainerRestartPolicyForbidden", text)
    return None


def _groups_policy(pod: Object, node: Object) -> Rejection | None:
    """The policy Strict needs a runtime that obeys it, which the node's status has to say."""
    policy = (pod["spec"].get("securityContext") or {}).get("supplementalGroupsPolicy")
    reported = (node.get("status") or {}).get("features") or {}
    if policy != "Strict" or reported.get("supplementalGroupsPolicy"):
        return None
    text = "SupplementalGroupsPolicy=Strict is not supported in this node"
    return Rejection("SupplementalGroupsPolicyNotSupported", text)


def _undeclared(pod: Object) -> Rejection | None:
    """Source: pkg/kubelet/lifecycle/handlers.go, declaredFeaturesAdmitHandler, 1.35 and 1.36."""
    specs = [*pod_spec.init_containers(pod), *pod_spec.containers(pod)]
    actions = {rule.get("action") for spec in specs for rule in spec.get("restartPolicyRules") or []}
    if pod_spec.RESTART_ALL not in actions:
        return None
    text = "Pod requires node features that are not available: RestartAllContainersOnContainerExits"
    return Rejection("PodFeatureUnsupported", text)


def _pod_level_resources(pod: Object) -> Rejection | None:
    """Source: pkg/kubelet/lifecycle/features_linux.go, 1.36."""
    resources = pod["spec"].get("resources") or {}
    if not (resources.get("requests") or resources.get("limits")):
        return None
    return Rejection("PodLevelResourcesNotSupported", "PodLevelResources feature gate is disabled")


def _host_ports(pod: Object, others: Iterable[Object], *, of_sidecars: bool) -> Rejection | None:
    wanted = host_ports(pod["spec"], of_sidecars=of_sidecars)
    taken = (port for other in others for port in sorted(host_ports(other["spec"], of_sidecars=of_sidecars)))
    if not wanted or not conflicts(wanted, taken):
        return None
    return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")


def _resource_failures(
    pod: Object,
    node: Object,
    others: Iterable[Object],
    plugged: Mapping[str, int],
    delegated_to_dra: DelegatedToDRA,
) -> Rejection | None:
    allocatable = {
        name: Quantity.parse(str(amount)).milli_value()
        for name, amount in ((node.get("status") or {}).get("allocatable") or {}).items()
    }
    for name, count in plugged.items():
        allocatable[name] = max(allocatable.get(name, 0), count * 1000)
    used: dict[str, int] = {}
    for other in others:
        for name, amount in {**pod_spec.pod_requests(other), "pods": 1000}.items():
            used[name] = used.get(name, 0) + amount
    own = _for_node(pod, allocatable, delegated_to_dra)
    for name, amount in {"pods": 1000, **pod_spec.pod_requests(own)}.items():
        free = allocatable.get(name, 0) - used.get(name, 0)
        if amount > free and not (amount == 0 or _is_left(name, allocatable, delegated_to_dra)):
            return _insufficient(name, amount, used.get(name, 0), allocatable.get(name, 0))
    return None


def _for_node(pod: Object, allocatable: Mapping[str, int], delegated_to_dra: DelegatedToDRA) -> Object:
    """Drops the requests that the node does not check (removeMissingExtendedResources)."""
    mapped = pod_spec.mapped_resources(pod) if delegated_to_dra is DelegatedToDRA.MAPPED else ()

    def filtered(container: Object) -> Object:
        resources = container.get("resources") or {}
        requests = {
            name: amount
            for name, amount in (resources.get("requests") or {}).items()
            if not (is_dra_extended_resource(name) and (container["name"], name) in mapped)
            and not (is_extended_resource(name) and name not in allocatable)
        }
        return {**container, "resources": {**resources, "requests": requests}}

    spec = dict(pod["spec"])
    for field in ("containers", "initContainers"):
        spec[field] = [filtered(container) for container in spec.get(field) or ()]
    return {**pod, "spec": spec}


def _is_left(name: str, allocatable: Mapping[str, int], delegated_to_dra: DelegatedToDRA) -> bool:
    if name in _NATIVE or name == "pods":
        return False
    if delegated_to_dra is DelegatedToDRA.UNNAMED:
        return name not in allocatable
    return delegated_to_dra is DelegatedToDRA.ABSENT and allocatable.get(name, 0) <= 0


def _insufficient(name: str, requested: int, used: int, capacity: int) -> Rejection:
    values = [amount if name == "cpu" else -(-amount // 1000) for amount in (requested, used, capacity)]
    return Rejection(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {values[0]}, used: {values[1]}, "
        f"capacity: {values[2]}",
    )


def _node_name(pod: Object, node: Object) -> Rejection | None:
    if pod["spec"].get("nodeName") in (None, "", node["metadata"]["name"]):
        return None
    return _failed("NodeName", "node(s) didn't match the requested node name")


def _node_affinity(pod: Object, node: Object) -> Rejection | None:
    if affinity_matches(pod, node):
        return None
    return _failed(NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")


def _taints(pod: Object, node: Object) -> Rejection | None:
    taints = node["spec"].get("taints") or [] if "spec" in node else []
    tolerations = pod["spec"].get("tolerations") or []
    if untolerated(taints, tolerations, ("NoExecute",)) is None:
        return None
    return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _failed(predicate: str, why: str) -> Rejection:
    return Rejection(predicate, f"Predicate {predicate} failed: {why}")


class PendingResize(NamedTuple):
    """The reason and message of the condition PodResizePending, for a resize that is not done yet."""

    reason: str
    message: str


class FitCheck(NamedTuple):
    """Two checks whether the node has room for a pod: next to the others, and if it were alone."""

    with_others: Callable[[Object], Rejection | None]
    alone: Callable[[Object], Rejection | None]


class Resizer:
    """One pod's allocation; `known` is what an earlier kubelet gave its containers."""

    def __init__(self, known: Mapping[str, Object] | None = None) -> None:
        self._allocated: dict[str, Object] = dict(known or {})
        self.pending: PendingResize | None = None

    def resize(self, pod: Object, fit_check: FitCheck | None) -> list[str]:
        """Allocates what the pod requests now if the node has it; returns the containers that must restart
        for it."""
        wanted = _container_resources(pod)
        # of containers that are new, and of those that are never resized
        self._allocated = {name: self._allocated.get(name, asked) for name, asked in wanted.items()}
        if wanted == self._allocated or fit_check is None:
            self.pending = None
            return []
        alone = fit_check.alone(pod)
        if alone is not None and alone.reason.startswith("OutOf"):
            message = alone.message.replace("enough resource:", "enough capacity:").replace(" used: 0,", "")
            self.pending = PendingResize(INFEASIBLE, message)
            return []
        crowded = fit_check.with_others(pod)
        if crowded is not None and crowded.reason.startswith("OutOf"):
            self.pending = PendingResize(DEFERRED, crowded.message)
            return []
        self.pending = None
        before, self._allocated = self._allocated, wanted
        return [
            spec["name"]
            for spec in pod_spec.all_containers(pod)
            if _needs_restart(spec, before.get(spec["name"]) or {}, wanted[spec["name"]])
        ]

    def allocated(self, pod: Object) -> Object:
        """A pod that has not been given what it asks for is copied, with the resources that it has."""
        if all(
            self._allocated.get(name, asked) == asked for name, asked in _container_resources(pod).items()
        ):
            return pod
        shown = copy.deepcopy(pod)
        for spec in pod_spec.all_containers(shown):
            resources = self._allocated.get(spec["name"])
            if resources is not None:
                spec["resources"] = resources
        return shown


def _container_resources(pod: Object) -> dict[str, Object]:
    return {spec["name"]: spec.get("resources") or {} for spec in pod_spec.all_containers(pod)}


def _needs_restart(spec: Object, before: Object, after: Object) -> bool:
    policies = {policy["resourceName"]: policy["restartPolicy"] for policy in spec.get("resizePolicy") or []}
    return any(
        policies.get(name) == "RestartContainer" and _amounts(before, name) != _amounts(after, name)
        for name in _MUTABLE
    )


def _amounts(resources: Object, name: str) -> list[Any]:
    return [(resources.get(kind) or {}).get(name) for kind in ("requests", "limits")]
