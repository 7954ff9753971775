"""These small plugins are off unless a flag turns them on.

Source: k8s.io/kubernetes/plugin/pkg/admission: alwayspullimages, admit, deny, antiaffinity,
extendedresourcetoleration, network/denyserviceexternalips, namespace/exists, namespace/autoprovision; 1.36.
"""

from kubeskew.apimachinery.errors import GroupResource, not_found
from kubeskew.apimachinery.field import not_supported
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_extended_resource
from kubeskew.apiserver.admission import CONNECT, CREATE, DELETE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Key

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


class AlwaysDeny(Plugin):
    operations = frozenset({CREATE, UPDATE, DELETE, CONNECT})
    subresources = None

    async def admit(self, attributes: Attributes) -> None:
        raise attributes.refuse("admission control is denying all modifications")

    async def validate(self, attributes: Attributes) -> None:
        await self.admit(attributes)


class AlwaysPullImages(Plugin):
    """Pods pull every image again, so that nobody runs what only others may pull."""

    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"pods"})
    subresources = frozenset({"", "ephemeralcontainers"})

    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.object
        if pod is None or _has_no_new_image(attributes):
            return
        for field in _CONTAINERS:
            for container in pod["spec"].get(field) or ():
                container["imagePullPolicy"] = "Always"
        for volume in pod["spec"].get("volumes") or ():
            if volume.get("image") is not None:
                volume["image"]["pullPolicy"] = "Always"

    async def validate(self, attributes: Attributes) -> None:
        pod = attributes.object
        if pod is None or _has_no_new_image(attributes):
            return
        for field in _CONTAINERS:
            for position, container in enumerate(pod["spec"].get(field) or ()):
                policy = container.get("imagePullPolicy") or ""
                if policy != "Always":
                    at = f"spec.{field}[{position}].imagePullPolicy"
                    raise attributes.refuse(str(not_supported(at, policy, ("Always",))))


def _has_no_new_image(attributes: Attributes) -> bool:
    if attributes.operation != UPDATE or attributes.old is None or attributes.object is None:
        return False
    return _images(attributes.object) <= _images(attributes.old)


def _images(pod: Object) -> set[str]:
    return {
        container.get("image") or "" for field in _CONTAINERS for container in pod["spec"].get(field) or ()
    }


class DenyServiceExternalIPs(Plugin):
    """Refuses external addresses that a service did not have."""

    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"services"})

    async def validate(self, attributes: Attributes) -> None:
        new = set(((attributes.object or {}).get("spec") or {}).get("externalIPs") or ())
        old = set(((attributes.old or {}).get("spec") or {}).get("externalIPs") or ())
        if not new <= old:
            raise attributes.refuse("Use of external IPs is denied by admission control.")


class ExtendedResourceToleration(Plugin):
    """Lets a pod that asks for an extended resource tolerate the taint that keeps others off its nodes."""

    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"pods"})

    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.object
        if pod is None:
            return
        spec = pod["spec"]
        wanted = {
            name
            for field in ("containers", "initContainers")
            for container in spec.get(field) or ()
            for name in (container.get("resources") or {}).get("requests") or ()
            if is_extended_resource(name)
        }
        tolerations = list(spec.get("tolerations") or ())
        for name in sorted(wanted):
            toleration = {"key": name, "operator": "Exists"}
            if toleration not in tolerations:
                tolerations.append(toleration)
        if wanted:
            spec["tolerations"] = tolerations


class LimitPodHardAntiAffinityTopology(Plugin):
    """Refuses required anti-affinity over anything but the node."""

    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"pods"})
    _host = "kubernetes.io/hostname"

    async def validate(self, attributes: Attributes) -> None:
        affinity = ((attributes.object or {}).get("spec") or {}).get("affinity") or {}
        terms = affinity.get("podAntiAffinity") or {}
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            key = term.get("topologyKey") or ""
            if key != self._host:
                raise attributes.refuse(
                    "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey "
                    f"{key} but only key {self._host} is allowed"
                )


class NamespaceExists(Plugin):
    operations = frozenset({CREATE, UPDATE, DELETE})
    subresources = None

    def __init__(self, store: Store) -> None:
        self._store = store

    async def validate(self, attributes: Attributes) -> None:
        namespace = attributes.namespace
        if not namespace or attributes.resource.storage_resource == "namespaces":
            return
        key = Key("namespaces", "", namespace)
        if self._store.get(key) is None:
            await self._store.refresh()
            if self._store.get(key) is None:
                raise not_found(GroupResource("", "namespaces"), namespace)
