"""Makes the extended-resource claim: one ResourceClaim for the devices behind a pod's extended resources.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources/extended, 1.34 … 1.36.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.scheduler.allocator.claims import EXTENDED_ANNOTATION
from kubeskew.scheduler.framework.pod_info import PodInfo, container_requests

ClassFor = Callable[[str], Object | None]

IN_MEMORY_NAME = "<extended-resources>"


def new_claim(pod: PodInfo, uid: str, *, blocks_deletion: bool) -> Object:
    """The claim exists in memory only until its node is chosen; `uid` is a temporary one."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    return {
        "metadata": {
            "namespace": pod.namespace,
            "name": IN_MEMORY_NAME,
            "uid": uid,
            "generateName": f"{pod.name}-extended-resources-",
            "annotations": {EXTENDED_ANNOTATION: "true"},
            "ownerReferences": [{**owner, "blockOwnerDeletion": True} if blocks_deletion else owner],
        },
        "spec": {},
    }


@dataclass(frozen=True, slots=True)
class ClaimRequests:
    """`requests` for the claim's spec, `mappings` for the pod's status."""

    requests: Sequence[Object]
    mappings: Sequence[Object]


@dataclass(frozen=True, slots=True)
class _Container:
    index: int
    name: str
    requests: Mapping[str, int]
    brief: bool  # an init container that ends before the next one starts

    def request_name(self, resource: str) -> str:
        """Numbers count all resources that the container requests, cpu and memory included."""
        return f"container-{self.index}-request-{sorted(self.requests).index(resource)}"


@dataclass(slots=True)
class _Draft:
    class_for: ClassFor
    requests: list[Object] = field(default_factory=list)
    mappings: list[Object] = field(default_factory=list)

    def request(self, container: _Container, resource: str, count: int) -> str:
        name = container.request_name(resource)
        device_class = self.class_for(resource)
        if device_class is None:
            raise LookupError(f"no device class for {resource}")
        exactly = {
            "deviceClassName": device_class["metadata"]["name"],
            "allocationMode": "ExactCount",
            "count": count,
        }
        self.requests.append({"name": name, "exactly": exactly})
        return name

    def map(self, container: _Container, resource: str, request: str) -> None:
        mapping = {"containerName": container.name, "resourceName": resource, "requestName": request}
        self.mappings.append(mapping)

    def finish(self) -> ClaimRequests:
        """1.35 and later sort the requests by name."""
        return ClaimRequests(sorted(self.requests, key=lambda request: str(request["name"])), self.mappings)


def _containers(spec: Mapping[str, Any]) -> list[_Container]:
    init = spec.get("initContainers") or []
    return [
        _Container(
            index,
            container["name"],
            container_requests(container),
            index < len(init) and not is_sidecar(container),
        )
        for index, container in enumerate((*init, *spec["containers"]))
    ]


def per_container(spec: Mapping[str, Any], resources: Iterable[str], class_for: ClassFor) -> ClaimRequests:
    """Makes separate requests for each container, as 1.34 (KEP-5004, alpha).

    Requests come resource by resource, mappings container by container; in which order the resources come is
    chance upstream (createDeviceRequests and createRequestMappings in dynamicresources.go, 1.34).
    """
    draft = _Draft(class_for)
    containers = _containers(spec)
    names = sorted(resources)
    for resource in names:
        for container in containers:
            count = container.requests.get(resource, 0)
            if count:
                draft.request(container, resource, count)
    for container in containers:
        for resource in names:
            if container.requests.get(resource, 0):
                draft.map(container, resource, container.request_name(resource))
    return ClaimRequests(draft.requests, draft.mappings)


def with_reuse(spec: Mapping[str, Any], resources: Iterable[str], class_for: ClassFor) -> ClaimRequests:
    """Makes requests as 1.35 and later: init containers that end use the devices of later containers.

    Only the largest excess of one of them becomes a request, for all of them. Mappings are sorted by
    resource, those of these init containers last.
    """
    draft = _Draft(class_for)
    for resource in sorted(resources):
        _share(draft, _containers(spec), resource)
    return draft.finish()


def _share(draft: _Draft, containers: Sequence[_Container], resource: str) -> None:
    lasting: list[tuple[_Container, str, int]] = []
    for container in containers:
        count = container.requests.get(resource, 0)
        if count and not container.brief:
            name = draft.request(container, resource, count)
            draft.map(container, resource, name)
            lasting.append((container, name, count))
    short: list[tuple[_Container, int]] = []
    brief: list[tuple[_Container, str]] = []  # "": the request that all these init containers share
    for container in containers:
        missing = container.requests.get(resource, 0) if container.brief else 0
        for later, name, count in lasting:
            if missing > 0 and later.index > container.index:
                brief.append((container, name))
                missing -= count
        if missing > 0:
            short.append((container, missing))
            brief.append((container, ""))
    shared = ""
    if short:
        hungriest, extra = max(short, key=lambda each: each[1])
        shared = draft.request(hungriest, resource, extra)
    for container, name in brief:
        draft.map(container, resource, name or shared)
