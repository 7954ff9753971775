"""Lists the audiences for which the volumes of a pod need tokens of its service account.

Source: k8s.io/kubernetes/plugin/pkg/admission/noderestriction/admission.go (podReferencesAudience), 1.36,
as we remember it.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of

_DRIVERS = "csidrivers.storage.k8s.io"


def token_audiences(store: Store, pod: Object) -> frozenset[str]:
    """Returns the audiences; empty text is the server's own."""
    return frozenset(_audiences(store, pod))


def _audiences(store: Store, pod: Object) -> Iterator[str]:
    namespace = pod["metadata"].get("namespace") or ""
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                yield source["serviceAccountToken"].get("audience") or ""
        driver = (volume.get("csi") or {}).get("driver") or ""
        if volume.get("persistentVolumeClaim"):
            driver = _driver_of_claim(
                store, namespace, volume["persistentVolumeClaim"].get("claimName") or ""
            )
        elif volume.get("ephemeral") is not None:
            driver = _driver_of_claim(store, namespace, f"{pod['metadata']['name']}-{volume['name']}")
        if driver:
            spec = _get(store, _DRIVERS, "", driver).get("spec") or {}
            yield from (request.get("audience") or "" for request in spec.get("tokenRequests") or ())


def _driver_of_claim(store: Store, namespace: str, name: str) -> str:
    claim = _get(store, "persistentvolumeclaims", namespace, name).get("spec") or {}
    volume = _get(store, "persistentvolumes", "", claim.get("volumeName") or "").get("spec") or {}
    return str((volume.get("csi") or {}).get("driver") or "")


def _get(store: Store, resource: str, namespace: str, name: str) -> Object:
    entry = store.get(Key(resource, namespace, name))
    return object_of(entry) if entry else {}
