"""The base of the controllers of a service's endpoints.

It finds the pods behind a service with their ports, and the time of their last change, starts the sync after
a change, and writes slices. The server chooses the names of slices, so new ones are remembered, lest one is
created twice.

Sources: k8s.io/endpointslice/util/trigger_time_tracker.go, 1.36; k8s.io/endpointslice and
k8s.io/kubernetes/pkg/controller/endpoint, 1.36.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kubeskew.apimachinery.client.refs import ENDPOINT_SLICES, PODS, SERVICES
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar, is_terminal
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key
from kubeskew.controllers.framework.pod_control import is_namespace_terminating

ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"
SERVICE_LABEL = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"


class TriggerTimes:
    def __init__(self) -> None:
        self._seen: dict[Key, dict[str, str]] = {}

    def of(self, key: Key, service: Object, selected: Iterable[Object]) -> str:
        """The earliest change since the last call counts, or the creation of a new service; empty without
        either.
        """
        created: str = service["metadata"].get("creationTimestamp") or ""
        times = {"": created}
        for pod in selected:
            ready = find_condition(pod, "Ready") or {}
            times[pod["metadata"]["name"]] = ready.get("lastTransitionTime") or ""
        before = self._seen.get(key)
        self._seen[key] = times
        if before is None:
            return created
        return min((time for name, time in times.items() if time > before.get(name, "")), default="")

    def forget(self, key: Key) -> None:
        self._seen.pop(key, None)


def annotated(metadata: Object, time: str) -> Object:
    """An empty `time` removes the annotation."""
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: time}
    if not time:
        del annotations[ANNOTATION]
    return {**metadata, "annotations": annotations}


@dataclass(frozen=True, slots=True)
class Port:
    name: str
    port: int
    protocol: str
    application: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Backend:
    """A pod behind a service.

    `ready`: takes traffic; `serving`: could, but may be terminating. `hostname`: its name below the
    service's, empty if the pod is not in the service's subdomain.
    """

    pod: Object
    hostname: str
    ports: tuple[Port, ...]
    ready: bool
    serving: bool
    terminating: bool

    @property
    def ip(self) -> str:
        ip: str = self.pod["status"]["podIP"]
        return ip

    @property
    def reference(self) -> Object:
        metadata = self.pod["metadata"]
        return {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }


def selector_of(service: Object) -> dict[str, str]:
    """Services whose endpoints others write have an empty one."""
    spec = service["spec"]
    selector: dict[str, str] = spec.get("selector") or {}
    return {} if spec.get("type") == "ExternalName" else selector


def is_headless(service: Object) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def backends(
    service: Object, selected: Iterable[Object], *, overlooks_sidecars: bool = False
) -> list[Backend]:
    """Only pods with an address that have not ended are backends, in the order of their names.

    `overlooks_sidecars`: the names of their ports are not known.
    """
    publish_all = bool(service["spec"].get("publishNotReadyAddresses"))
    found = []
    for pod in selected:
        if not pod.get("status", {}).get("podIP") or is_terminal(pod):
            continue
        serving, terminating = pods.is_ready(pod), pods.is_terminating(pod)
        found.append(
            Backend(
                pod=pod,
                hostname=_hostname(service, pod),
                ports=_ports(service, pod, overlooks_sidecars),
                ready=publish_all or (serving and not terminating),
                serving=serving,
                terminating=terminating,
            )
        )
    return sorted(found, key=lambda one: one.pod["metadata"]["name"])


def _hostname(service: Object, pod: Object) -> str:
    name: str = pod["spec"].get("hostname", "")
    return name if pod["spec"].get("subdomain") == service["metadata"]["name"] else ""


def _ports(service: Object, pod: Object, overlooks_sidecars: bool) -> tuple[Port, ...]:
    """Named ports that none of the pod's containers has are left out."""
    resolved = []
    for port in service["spec"].get("ports") or ():
        protocol = port.get("protocol", "TCP")
        sidecars = () if overlooks_sidecars else filter(is_sidecar, pod["spec"].get("initContainers") or ())
        number = _number(port, protocol, [*pod["spec"]["containers"], *sidecars])
        if number is not None:
            resolved.append(Port(port.get("name", ""), number, protocol, port.get("appProtocol")))
    return tuple(resolved)


def _number(port: Object, protocol: str, containers: Iterable[Object]) -> int | None:
    target = port.get("targetPort")
    if isinstance(target, int) and target:
        return target
    if not target:
        return int(port["port"])
    for container in containers:
        for container_port in container.get("ports") or ():
            if container_port.get("name") == target and container_port.get("protocol", "TCP") == protocol:
                return int(container_port["containerPort"])
    return None


class ServiceController(Controller):
    """Keys are services."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.services = context.informer(SERVICES)
        self.triggers = TriggerTimes()
        self._pods = context.informer(PODS)
        self.services.add_handler(self.enqueue, lambda _, new: self.enqueue(new), self.enqueue)
        self._pods.add_handler(self._pod_changed, self._pod_updated, self._pod_changed)

    def _pod_changed(self, pod: Object) -> None:
        labels = (pod["metadata"].get("labels") or {}).items()
        for service in self.services.list(pod["metadata"]["namespace"]):
            selector = selector_of(service)
            if selector and selector.items() <= labels:
                self.enqueue(service)

    def _pod_updated(self, old: Object, new: Object) -> None:
        self._pod_changed(new)
        if old["metadata"].get("labels") != new["metadata"].get("labels"):
            self._pod_changed(old)

    def selected(self, service: Object) -> list[Object]:
        selector = selector_of(service).items()
        candidates = self._pods.list(service["metadata"]["namespace"])
        return [pod for pod in candidates if selector <= (pod["metadata"].get("labels") or {}).items()]


class SliceWriter:
    """Remembers the slices that it created until the informer shows them."""

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._made: dict[Key, set[str]] = {}

    def is_behind(self, key: Key, present: Iterable[Object]) -> bool:
        """True while slices that were just created are missing in the informer; from the second call on they
        count as deleted.
        """
        return bool(self._made.pop(key, set()) - {slice_["metadata"]["name"] for slice_ in present})

    def forget(self, key: Key) -> None:
        self._made.pop(key, None)

    async def create(self, key: Key, slice_: Object) -> None:
        metadata = {**slice_["metadata"], "generateName": f"{key.name}-", "namespace": key.namespace}
        whole = {"apiVersion": ENDPOINT_SLICES.api_version, "kind": ENDPOINT_SLICES.kind, **slice_}
        try:
            made = await self._client.create(ENDPOINT_SLICES, {**whole, "metadata": metadata})
        except StatusError as error:
            if not is_namespace_terminating(error):
                raise
        else:
            self._made.setdefault(key, set()).add(made["metadata"]["name"])

    async def delete(self, slice_: Object) -> None:
        metadata = slice_["metadata"]
        try:
            await self._client.delete(ENDPOINT_SLICES, metadata["name"], metadata["namespace"])
        except StatusError as error:
            if error.code != 404:
                raise


def service_keys(slice_: Object, manager: str) -> list[str]:
    metadata = slice_["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(MANAGED_BY) != manager or SERVICE_LABEL not in labels:
        return []
    return [f"{metadata['namespace']}/{labels[SERVICE_LABEL]}"]
