"""The resources that pods of a node were given, kept over restarts of the kubelet with in-place resizing.

Up to 1.32 the status manager keeps them, up to 1.31 with what became of resizes that are not done. Since 1.33
the allocation manager does, and what containers were started or resized with (pkg/kubelet/allocation).
Without the gate nothing is read or written.
"""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.checkpoints import pod_allocations
from kubeskew.kubelet.checkpoints.pod_allocations import AllocationForm, PodsState, Resources
from kubeskew.kubelet.checkpoints.reading import CheckpointError, PanicError
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.files import StateFiles

log = logging.getLogger(__name__)

STATUS_MANAGER = "pod_status_manager_state"
ALLOCATED, ACTUATED = "allocated_pods_state", "actuated_pods_state"
_ONE_FILE = (AllocationForm.STRUCTS, AllocationForm.TEXT)
_DEFAULTED = ("cpu", "memory")


class StateFile:
    """One file, and what is in it or about to be."""

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
        """Writes the file, unless it says the same already."""
        content = pod_allocations.encode(self.state, self.form)
        if content != self._content:
            self._files.write(self._path, content)
            self._content = content


class PodAllocations:
    """The allocations of one node's pods. Call `load` first."""

    def __init__(self, directory: Path, features: KubeletFeatures, files: StateFiles) -> None:
        """The files are in `directory`."""
        self._form = features.allocation_form
        self._zeros = features.restores_missing_as_zero
        self._goes_on = features.admission.goes_on_unwritten
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
        """Returns what a pod's containers were given; empty for a pod that is not known.

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
        """Stores what becomes of a pod's resize: Deferred or Infeasible; empty if none waits any more.

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
        """Stores that a container has what it was given, and its pod what it has as a whole."""
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
    """Returns the files of such a kubelet in the order in which it reads them; none without the gate."""
    form = features.allocation_form
    return [] if form is None else [StateFile(directory / name, form, files) for name in file_names(form)]


def file_names(form: AllocationForm) -> tuple[str, ...]:
    """Returns the files of kubelets with that form: of what pods were given, and of what containers have."""
    return (STATUS_MANAGER,) if form in _ONE_FILE else (ALLOCATED, ACTUATED)


def resources_of(pod: Object, form: AllocationForm) -> dict[str, Resources]:
    """Returns what a pod's containers ask for, as files of that form have it."""
    sidecars = [container for container in pod_spec.init_containers(pod) if is_sidecar(container)]
    containers = [*pod_spec.containers(pod), *(() if form in _ONE_FILE else sidecars)]
    return {container["name"]: dict(container.get("resources") or {}) for container in containers}


def _set(resources: dict[str, Any], uid: str, given: Any) -> None:
    """Has a pod be given something, or nothing."""
    if given:
        resources[uid] = given
    else:
        resources.pop(uid, None)


def _with_requests(asked: Resources, given: Resources) -> Resources:
    rest = {name: value for name, value in asked.items() if name != "requests"}
    return {**rest, **given}


def _with_zeros(resources: Resources) -> Resources:
    """Returns the resources as a kubelet of 1.27 has them that takes the amounts of a pod it knew from its
    checkpoint: what the container does not ask for is Go's zero Quantity (issue 117589)."""
    requests = resources.get("requests")
    if requests is None:
        return resources
    return {**resources, "requests": {**dict.fromkeys(_DEFAULTED), **requests}}
