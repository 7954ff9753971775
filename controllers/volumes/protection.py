"""Protects claims, volumes, their classes and groups of pods from deletion while they are in use.

Their finalizer is removed when nothing uses them. Behaviour of
k8s.io/kubernetes/pkg/controller/volume/{pvcprotection,pvprotection,vacprotection} and
pkg/controller/scheduling/podgroupprotection, 1.36.
"""

from collections.abc import Callable

from kubeskew.apimachinery.client.refs import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    Ref,
    attributes_classes_ref,
    pod_groups_ref,
)
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"
CLASS_FINALIZER = "kubernetes.io/vac-protection"
GROUP_FINALIZER = "scheduling.k8s.io/podgroup-protection"


def claim_keys(pod: Object) -> list[str]:
    """Claims are `namespace/name`, those of ephemeral volumes included."""
    metadata, found = pod["metadata"], []
    for volume in pod["spec"].get("volumes") or ():
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            found.append(f"{metadata['namespace']}/{claim['claimName']}")
        elif volume.get("ephemeral") is not None:
            found.append(f"{metadata['namespace']}/{metadata['name']}-{volume['name']}")
    return found


class _Protection(Controller):
    """Adds the finalizer where it is missing, and removes it from deleted objects that are not in use."""

    def _wanted(self, obj: Object, finalizer: str, *, used: bool) -> list[str] | None:
        """None means that the object has the finalizers it should have."""
        finalizers = obj["metadata"].get("finalizers") or []
        if obj["metadata"].get("deletionTimestamp"):
            if finalizer in finalizers and not used:
                return [name for name in finalizers if name != finalizer]
        elif finalizer not in finalizers:
            return [*finalizers, finalizer]
        return None

    async def _write(self, ref: Ref, obj: Object, finalizers: list[str]) -> None:
        changed = {**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}}
        try:
            await self.client.update(ref, changed)
        except StatusError as error:
            if error.code != 404:
                raise


class ClaimProtectionController(_Protection):
    name = "persistentvolumeclaim-protection-controller"
    component = "persistentvolumeclaim-protection-controller"
    queue_name = "pvcprotection"
    default_workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._claims = context.informer(PERSISTENT_VOLUME_CLAIMS)
        self._pods = context.informer(PODS)
        self._pods.add_index("claim", claim_keys)
        self._claims.add_handler(self.enqueue, lambda _, new: self.enqueue(new))
        self._pods.add_handler(None, self._pod_updated, self._pod_gone)

    def _pod_updated(self, old: Object, new: Object) -> None:
        if is_terminal(new) or old["metadata"]["uid"] != new["metadata"]["uid"]:
            self._pod_gone(new)

    def _pod_gone(self, pod: Object) -> None:
        for text in claim_keys(pod):
            namespace, _, name = text.partition("/")
            self.queue.add(Key(namespace, name))

    async def sync(self, key: Key) -> None:
        claim = self._claims.get(*key)
        if claim is None:
            return
        deleted = bool(claim["metadata"].get("deletionTimestamp"))
        used = deleted and (
            self._has_user(key, self._known(key)) or self._has_user(key, await self._live(key))
        )
        wanted = self._wanted(claim, CLAIM_FINALIZER, used=used)
        if wanted is not None:
            await self._write(PERSISTENT_VOLUME_CLAIMS, claim, wanted)

    def _known(self, key: Key) -> list[Object]:
        return self._pods.by_index("claim", str(key))

    async def _live(self, key: Key) -> list[Object]:
        """Reads pods from the server, because the informer may not have a new pod yet that uses the claim."""
        found: list[Object] = (await self.client.list(PODS, key.namespace))["items"]
        return found

    @staticmethod
    def _has_user(key: Key, found: list[Object]) -> bool:
        """Pods count once they have a node, and as long as they exist, even if they have ended."""
        return any(str(key) in claim_keys(pod) and pod["spec"].get("nodeName") for pod in found)


class VolumeProtectionController(_Protection):
    name = "persistentvolume-protection-controller"
    component = "persistentvolume-protection-controller"
    queue_name = "pvprotection"
    default_workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._volumes = context.informer(PERSISTENT_VOLUMES)
        self._volumes.add_handler(self.enqueue, lambda _, new: self.enqueue(new))

    async def sync(self, key: Key) -> None:
        volume = self._volumes.get(*key)
        if volume is None:
            return
        used = (volume.get("status") or {}).get("phase") == "Bound"
        wanted = self._wanted(volume, VOLUME_FINALIZER, used=used)
        if wanted is not None:
            await self._write(PERSISTENT_VOLUMES, volume, wanted)


def _claim_classes(claim: Object) -> list[str]:
    status = claim.get("status") or {}
    names = (
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return list(dict.fromkeys(name for name in names if name))


def _volume_classes(volume: Object) -> list[str]:
    name = volume["spec"].get("volumeAttributesClassName")
    return [name] if name else []


class AttributesClassProtectionController(_Protection):
    name = "volumeattributesclass-protection-controller"
    component = "volumeattributesclass-protection-controller"
    queue_name = "vacprotection"
    default_workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._ref = attributes_classes_ref(context.environment.version)
        self._classes = context.informer(self._ref)
        self._users = (context.informer(PERSISTENT_VOLUMES), context.informer(PERSISTENT_VOLUME_CLAIMS))
        self._classes.add_handler(self.enqueue, lambda _, new: self.enqueue(new))
        for users, classes in zip(self._users, (_volume_classes, _claim_classes), strict=True):
            users.add_index("attributesClass", classes)
            users.add_handler(None, self._left(classes), self._gone(classes))

    def _left(self, classes: Callable[[Object], list[str]]) -> Callable[[Object, Object], None]:
        def updated(old: Object, new: Object) -> None:
            now = classes(new)
            for name in classes(old):
                if name not in now:
                    self.queue.add(Key("", name))

        return updated

    def _gone(self, classes: Callable[[Object], list[str]]) -> Callable[[Object], None]:
        def deleted(obj: Object) -> None:
            for name in classes(obj):
                self.queue.add(Key("", name))

        return deleted

    async def sync(self, key: Key) -> None:
        found = self._classes.get(*key)
        if found is None:
            return
        used = any(users.by_index("attributesClass", key.name) for users in self._users)
        wanted = self._wanted(found, CLASS_FINALIZER, used=used)
        if wanted is not None:
            await self._write(self._ref, found, wanted)


def _group_of(pod: Object) -> list[str]:
    """Ended pods do not count."""
    name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    if name is None or is_terminal(pod):
        return []
    return [f"{pod['metadata']['namespace']}/{name}"]


class PodGroupProtectionController(_Protection):
    """Removes the finalizer of deleted groups whose pods have all ended; only admission adds it."""

    name = "podgroup-protection-controller"
    component = "podgroup-protection-controller"
    queue_name = "podgroupprotection"
    default_workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._ref = pod_groups_ref(context.environment.version)
        self._groups = context.informer(self._ref)
        self._pods = context.informer(PODS)
        self._pods.add_index("activeGroup", _group_of)
        self._groups.add_handler(self.enqueue, lambda _, new: self.enqueue(new))
        self._pods.add_handler(None, self._pod_updated, self._pod_gone)

    def _pod_updated(self, old: Object, new: Object) -> None:
        if is_terminal(new) or old["metadata"]["uid"] != new["metadata"]["uid"]:
            self._pod_gone(old)

    def _pod_gone(self, pod: Object) -> None:
        name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        if name is not None:
            self.queue.add(Key(pod["metadata"]["namespace"], name))

    async def sync(self, key: Key) -> None:
        group = self._groups.get(*key)
        if group is None or not group["metadata"].get("deletionTimestamp"):
            return
        used = bool(self._pods.by_index("activeGroup", str(key)))
        wanted = self._wanted(group, GROUP_FINALIZER, used=used)
        if wanted is not None:
            await self._write(self._ref, group, wanted)
