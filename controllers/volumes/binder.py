"""The persistent volume binder of a cluster without storage: binds existing volumes to claims.

Nothing is provisioned or reclaimed: a claim of a class with a provisioner waits for it, a released volume
stays.

Behaviour of k8s.io/kubernetes/pkg/controller/volume/persistentvolume, 1.36.
"""

from collections.abc import Coroutine
from typing import Any

from kubeskew.apimachinery import volume_matching as matching
from kubeskew.apimachinery.client.refs import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apimachinery.volume_matching import BIND_COMPLETED, BOUND_BY_CONTROLLER
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key
from kubeskew.controllers.volumes.protection import claim_keys

_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_BETA_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
_NO_CLASS = "no persistent volumes available for this claim and no storage class is set"
_WAITS = "waiting for first consumer to be created before binding"
_LOST_VOLUME = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
_LOST_NAME = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
_MISBOUND = "Two claims are bound to the same volume, this one is bound incorrectly"
_EXTERNAL = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and "
    "correctly registered."
)
# Provisioners that were once part of Kubernetes, and the drivers that took over.
_MIGRATED = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}


class PersistentVolumeController(Controller):
    name = "persistentvolume-binder-controller"
    component = "persistentvolume-controller"
    queue_name = "claims"
    default_workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._volumes = context.informer(PERSISTENT_VOLUMES)
        self._claims = context.informer(PERSISTENT_VOLUME_CLAIMS)
        self._classes = context.informer(STORAGE_CLASSES)
        self._pods = context.informer(PODS)
        for informer in (self._volumes, self._claims):
            informer.add_handler(self.enqueue, lambda _, new: self.enqueue(new))
        self._claims.add_handler(deleted=self._claim_deleted)
        if self.environment.periods.volume_resync:
            self._volumes.add_handler(deleted=self._volume_deleted)
        else:
            self._volumes.add_handler(self._volume_changed, self._volume_updated, self._volume_changed)
            self._classes.add_handler(self._class_added)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._resync()] if self.environment.periods.volume_resync else []

    async def _resync(self) -> None:
        while True:
            await self.clock.sleep(self.environment.periods.volume_resync)
            for informer in (self._claims, self._volumes):
                for obj in informer.list():
                    self.enqueue(obj)

    # -- event handlers

    def _volume_changed(self, volume: Object) -> None:
        """Claims that wait for any volume may take this one, too."""
        for claim in self._claims.list():
            name = claim["spec"].get("volumeName")
            if not name or name == volume["metadata"]["name"]:
                self.enqueue(claim)

    def _volume_updated(self, _old: Object, new: Object) -> None:
        if (new.get("status") or {}).get("phase") == "Available":
            self._volume_changed(new)

    def _volume_deleted(self, volume: Object) -> None:
        """Wakes the claim that was bound to it; others wait until all are looked at."""
        if reference := volume["spec"].get("claimRef"):
            self.queue.add(Key(reference["namespace"], reference["name"]))

    def _claim_deleted(self, claim: Object) -> None:
        if name := claim["spec"].get("volumeName"):
            self.queue.add(Key("", name))

    def _class_added(self, storage_class: Object) -> None:
        for claim in self._claims.list():
            if matching.class_of(claim) == storage_class["metadata"]["name"]:
                self.enqueue(claim)

    async def sync(self, key: Key) -> None:
        if key.namespace:
            claim = self._claims.get(*key)
            if claim is not None:
                await self._sync_claim(claim)
            return
        volume = self._volumes.get(*key)
        if volume is not None:
            await self._sync_volume(volume)

    # -- claims

    async def _sync_claim(self, claim: Object) -> None:
        if matching.annotation(claim, BIND_COMPLETED) is not None:
            await self._sync_bound(claim)
        elif name := claim["spec"].get("volumeName"):
            await self._sync_named(claim, self._volumes.get("", name))
        else:
            await self._sync_unbound(claim)

    async def _sync_bound(self, claim: Object) -> None:
        name = claim["spec"].get("volumeName")
        if not name:
            await self._lose(claim, "ClaimLost", _LOST_NAME)
            return
        volume = self._volumes.get("", name)
        if volume is None:
            await self._lose(claim, "ClaimLost", _LOST_VOLUME)
        elif volume["spec"].get("claimRef") is None or matching.is_meant_for(volume, claim):
            await self._bind(volume, claim)
        else:
            await self._lose(claim, "ClaimMisbound", _MISBOUND)

    async def _sync_named(self, claim: Object, volume: Object | None) -> None:
        if volume is None:
            await self._leave_unbound(claim, "Pending")
            return
        name = volume["metadata"]["name"]
        if volume["spec"].get("claimRef") is not None and not matching.is_meant_for(volume, claim):
            text = f'volume "{name}" already bound to a different claim.'
            self.recorder.event(claim, "Warning", "FailedBinding", text)
            await self._leave_unbound(claim, "Pending")
        elif why := matching.mismatch(volume, claim):
            text = f'Cannot bind to requested volume "{name}": {why}'
            self.recorder.event(claim, "Warning", "VolumeMismatch", text)
            await self._leave_unbound(claim, "Pending")
        else:
            await self._bind(volume, claim)

    async def _sync_unbound(self, claim: Object) -> None:
        name = matching.class_of(claim)
        found = self._classes.get("", name) if name else None
        delayed = (found or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
        volume = matching.best(self._volumes.list(), claim, delayed=delayed)
        if volume is not None:
            await self._bind(volume, claim)
            return
        if delayed and matching.annotation(claim, _SELECTED_NODE) is None:
            self._tell_who_is_waited_for(claim)
        elif name:
            await self._ask_provisioner(claim, name, found)
            return
        else:
            self.recorder.event(claim, "Normal", "FailedBinding", _NO_CLASS)
        await self._leave_unbound(claim, "Pending")

    def _tell_who_is_waited_for(self, claim: Object) -> None:
        waiting = [
            pod["metadata"]["name"]
            for pod in self._pods.list(claim["metadata"]["namespace"])
            if not pod["spec"].get("nodeName")
            and not _is_over(pod)
            and f"{claim['metadata']['namespace']}/{claim['metadata']['name']}" in claim_keys(pod)
        ]
        if waiting:
            pods = f"pod{'s' if len(waiting) > 1 else ''} {','.join(waiting)}"
            text = f"waiting for {pods} to be scheduled"
            self.recorder.event(claim, "Normal", "WaitForPodScheduled", text)
        else:
            self.recorder.event(claim, "Normal", "WaitForFirstConsumer", _WAITS)

    async def _ask_provisioner(self, claim: Object, name: str, storage_class: Object | None) -> None:
        provisioner = (storage_class or {}).get("provisioner", "")
        failure = ""
        if storage_class is None:
            failure = f'storageclass.storage.k8s.io "{name}" not found'
        elif provisioner in _MIGRATED:
            provisioner = _MIGRATED[provisioner]
        elif provisioner.startswith("kubernetes.io/"):  # nothing within Kubernetes provisions here
            failure = f"no volume plugin matched name: {provisioner}"
        if failure:
            self.recorder.event(claim, "Warning", "ProvisioningFailed", failure)
            return
        if matching.annotation(claim, _PROVISIONER) != provisioner:
            annotations = {_PROVISIONER: provisioner, _BETA_PROVISIONER: provisioner}
            present = claim["metadata"].get("annotations") or {}
            changed = {**claim, "metadata": {**claim["metadata"], "annotations": {**present, **annotations}}}
            claim = await self.client.update(PERSISTENT_VOLUME_CLAIMS, changed)
        self.recorder.event(claim, "Normal", "ExternalProvisioning", _EXTERNAL.format(provisioner))

    async def _lose(self, claim: Object, reason: str, message: str) -> None:
        if (claim.get("status") or {}).get("phase") != "Lost":
            await self._leave_unbound(claim, "Lost")
            self.recorder.event(claim, "Warning", reason, message)

    # -- binding

    async def _bind(self, volume: Object, claim: Object) -> None:
        """Writes the volume before the claim, and only changes."""
        reference = volume["spec"].get("claimRef")
        if reference is None or not reference.get("uid"):
            changed = {**volume, "spec": {**volume["spec"], "claimRef": matching.claim_reference(claim)}}
            if reference is None:
                changed = matching.annotated(changed, BOUND_BY_CONTROLLER)
            volume = await self.client.update(PERSISTENT_VOLUMES, changed)
        volume = await self._set_phase(volume, "Bound")
        if matching.annotation(claim, BIND_COMPLETED) is None:
            named = {**claim, "spec": {**claim["spec"], "volumeName": volume["metadata"]["name"]}}
            names = [BIND_COMPLETED]
            if not claim["spec"].get("volumeName"):
                names.append(BOUND_BY_CONTROLLER)
            claim = await self.client.update(PERSISTENT_VOLUME_CLAIMS, matching.annotated(named, *names))
        status = dict(claim.get("status") or {})
        status |= {"phase": "Bound", "accessModes": volume["spec"].get("accessModes") or []}
        status["capacity"] = volume["spec"].get("capacity") or {}
        if status != (claim.get("status") or {}):
            await self.client.update(PERSISTENT_VOLUME_CLAIMS, {**claim, "status": status}, "status")

    async def _set_phase(self, volume: Object, phase: str) -> Object:
        status = volume.get("status") or {}
        if status.get("phase") == phase:
            return volume
        changed = {**volume, "status": {**status, "phase": phase}}
        return await self.client.update(PERSISTENT_VOLUMES, changed, "status")

    async def _leave_unbound(self, claim: Object, phase: str) -> None:
        """Claims without a volume have neither modes nor a capacity."""
        status = claim.get("status") or {}
        kept = {name: value for name, value in status.items() if name not in ("accessModes", "capacity")}
        changed = {**claim, "status": {**kept, "phase": phase}}
        if changed["status"] != status:
            await self.client.update(PERSISTENT_VOLUME_CLAIMS, changed, "status")

    # -- volumes

    async def _sync_volume(self, volume: Object) -> None:
        reference = volume["spec"].get("claimRef")
        if reference is None or not reference.get("uid"):
            await self._set_phase(volume, "Available")
            return
        claim = self._claims.get(reference["namespace"], reference["name"])
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            if (volume.get("status") or {}).get("phase") != "Failed":
                await self._set_phase(volume, "Released")
        elif claim["spec"].get("volumeName") == volume["metadata"]["name"]:
            await self._set_phase(volume, "Bound")
        elif not claim["spec"].get("volumeName"):
            self.enqueue(claim)
        else:
            await self._unbind(volume)

    async def _unbind(self, volume: Object) -> None:
        spec = {name: value for name, value in volume["spec"].items() if name != "claimRef"}
        changed = {**volume, "spec": spec}
        if matching.annotation(volume, BOUND_BY_CONTROLLER) is None:
            reference = {
                k: v for k, v in volume["spec"]["claimRef"].items() if k not in ("uid", "resourceVersion")
            }
            changed["spec"] = {**spec, "claimRef": reference}
        else:
            kept = {k: v for k, v in volume["metadata"]["annotations"].items() if k != BOUND_BY_CONTROLLER}
            changed["metadata"] = {**volume["metadata"], "annotations": kept}
        changed = await self.client.update(PERSISTENT_VOLUMES, changed)
        await self._set_phase(changed, "Available")


def _is_over(pod: Object) -> bool:
    """Returns whether a pod has ended, or is about to be gone without a container that runs."""
    status = pod.get("status") or {}
    lists = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    states = [each.get("state") or {} for name in lists for each in status.get(name) or ()]
    runs = any("terminated" not in state and "waiting" not in state for state in states)
    return is_terminal(pod) or (bool(pod["metadata"].get("deletionTimestamp")) and not runs)
