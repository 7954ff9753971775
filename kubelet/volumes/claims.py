"""Finds the persistent volume of a pod's claim.

Source: pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go;
staging/src/k8s.io/component-helpers/storage/{ephemeral,volume}, 1.36.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kubeskew.apimachinery.client.refs import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.nodes import selector_matches
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.volumes.objects import MissingError, PodObjects

_PROTECTION = "kubernetes.io/pvc-protection"


class ClaimedVolume(NamedTuple):
    """A persistent volume as a pod uses it."""

    volume: Object
    read_only: bool


async def claimed_volume(
    objects: PodObjects, pod: Object, volume: Object, *, is_mounted: bool
) -> ClaimedVolume | None:
    """None for a volume without a claim. `is_mounted`: a container has it as a directory, not as a device.

    Raises ConfigError.
    """
    source = volume.get("persistentVolumeClaim")
    is_ephemeral = source is None and volume.get("ephemeral") is not None
    if is_ephemeral:
        source = {"claimName": f"{pod_spec.name_of(pod)}-{volume['name']}"}
    if source is None:
        return None
    name, namespace = source["claimName"], pod_spec.namespace_of(pod)
    try:
        claim = await _bound_claim(objects, name, namespace)
        if is_ephemeral:
            _check_owner(claim, pod)
        found = await _bound_volume(objects, claim)
    except _ProcessingError as error:
        raise ConfigError(f"error processing PVC {namespace}/{name}: {error}") from None
    mode = found["spec"].get("volumeMode") or "Filesystem"
    if is_mounted and mode != "Filesystem":
        raise ConfigError(f"volume {volume['name']} has volumeMode {mode}, but is specified in volumeMounts")
    if not is_mounted and mode != "Block":
        raise ConfigError(f"volume {volume['name']} has volumeMode {mode}, but is specified in volumeDevices")
    return ClaimedVolume(found, bool(source.get("readOnly")))


class _ProcessingError(Exception):
    """A claim or its volume is not as it must be."""


async def _bound_claim(objects: PodObjects, name: str, namespace: str) -> Object:
    try:
        claim = await objects.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
    except MissingError:
        text = f'persistentvolumeclaims "{name}" not found'
        raise _ProcessingError(f"failed to fetch PVC from API server: {text}") from None
    except ConfigError as error:
        raise _ProcessingError(f"failed to fetch PVC from API server: {error}") from None
    metadata = claim["metadata"]
    if metadata.get("deletionTimestamp") and _PROTECTION not in (metadata.get("finalizers") or ()):
        raise _ProcessingError("PVC is being deleted")
    if (claim.get("status") or {}).get("phase") != "Bound":
        raise _ProcessingError("PVC is not bound")
    if not claim["spec"].get("volumeName"):
        raise _ProcessingError("PVC has empty pvc.Spec.VolumeName")
    return claim


def _check_owner(claim: Object, pod: Object) -> None:
    for owner in claim["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("uid") == pod_spec.uid_of(pod):
            return
    where = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
    whose = f"{pod_spec.namespace_of(pod)}/{pod_spec.name_of(pod)}"
    raise ConfigError(f"PVC {where} was not created for pod {whose} (pod is not owner)")


async def _bound_volume(objects: PodObjects, claim: Object) -> Object:
    name, uid = claim["spec"]["volumeName"], claim["metadata"].get("uid")
    try:
        found = await objects.get(PERSISTENT_VOLUMES, name)
    except MissingError:
        text = f'persistentvolumes "{name}" not found'
        raise _ProcessingError(f"failed to fetch PV {name} from API server: {text}") from None
    except ConfigError as error:
        raise _ProcessingError(f"failed to fetch PV {name} from API server: {error}") from None
    owner = found["spec"].get("claimRef")
    if owner is None:
        raise _ProcessingError(
            f"found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the "
            "claim"
        )
    if owner.get("uid") != uid:
        raise _ProcessingError(
            f"found PV object {name} but its pv.Spec.ClaimRef.UID {owner.get('uid') or ''} does not point to "
            f"claim.UID {uid}"
        )
    return found


def check_node(volume: Object, labels: Mapping[str, str], node_name: str) -> None:
    """Raises ConfigError if the volume cannot be used on this node."""
    selector = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if selector is not None and not selector_matches(selector, labels, node_name):
        raise ConfigError("no matching NodeSelectorTerms")
