"""The ephemeral volume controller: a claim for each generic ephemeral volume of a pod.

Behaviour of k8s.io/kubernetes/pkg/controller/volume/ephemeral, 1.36.
"""

from kubeskew.apimachinery.client.refs import PERSISTENT_VOLUME_CLAIMS, PODS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object, is_controlled_by
from kubeskew.controllers.framework import owner_references, pods
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, SyncError


def claim_name(pod: Object, volume: Object) -> str:
    return f"{pod['metadata']['name']}-{volume['name']}"


class EphemeralVolumeController(Controller):
    name = "ephemeral-volume-controller"
    component = "ephemeral_volume"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.informer(PODS)
        self._claims = context.informer(PERSISTENT_VOLUME_CLAIMS)
        self._pods.add_handler(self._changed, lambda _, new: self._changed(new))
        self._claims.add_handler(deleted=self._claim_deleted)

    def _changed(self, pod: Object) -> None:
        if not pods.is_terminating(pod) and any(
            volume.get("ephemeral") is not None for volume in pod["spec"].get("volumes") or ()
        ):
            self.enqueue(pod)

    def _claim_deleted(self, claim: Object) -> None:
        """Claims that were deleted by mistake are created again."""
        owner = owner_references.resolve_controller(claim, PODS, self._pods.get)
        if owner is not None:
            self._changed(owner)

    async def sync(self, key: Key) -> None:
        pod = self._pods.get(*key)
        if pod is None or pods.is_terminating(pod):
            return
        for volume in pod["spec"].get("volumes") or ():
            if volume.get("ephemeral") is not None:
                await self._provide(pod, volume)

    async def _provide(self, pod: Object, volume: Object) -> None:
        namespace, name = pod["metadata"]["namespace"], claim_name(pod, volume)
        known = self._claims.get(namespace, name)
        if known is not None:
            if is_controlled_by(known, pod):
                return
            text = f"PVC {namespace}/{name} was not created for pod {namespace}/{pod['metadata']['name']}"
            raise SyncError(f"{text} (pod is not owner)")
        template = volume["ephemeral"].get("volumeClaimTemplate") or {}
        metadata = template.get("metadata") or {}
        claim: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "ownerReferences": [owner_references.new_controller_reference(pod, PODS)],
                **{part: metadata[part] for part in ("annotations", "labels") if metadata.get(part)},
            },
            "spec": template.get("spec") or {},
        }
        try:
            await self.client.create(PERSISTENT_VOLUME_CLAIMS, claim)
        except StatusError as error:
            text = f"ephemeral volume controller: create PVC {name}: {error}"
            self.recorder.event(pod, "Warning", "FailedBinding", text)
            raise
