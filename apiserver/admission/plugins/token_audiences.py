"""Lists the audiences for which the volumes of a pod need tokens of its service account.

Source: k8s.io/kubernetes/plugin/pkg/admission/noderestriction/admission.go (podReferencesAudience), 1.36,
as we remember it; its texts are in test/integration/auth/node_test.go.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of


class TokenAudiences(NamedTuple):
    """Holds what is known of the audiences that a pod's volumes need; empty text is the server's own."""

    named: frozenset[str]
    trouble: str  # why those of some volumes are not known


class _NotFoundError(Exception):
    """An object on the way from a volume to its driver is not there."""


def token_audiences(store: Store, pod: Object) -> TokenAudiences:
    """Returns the audiences, as far as the drivers of the volumes can be found out."""
    named: list[str] = []
    troubles: dict[str, None] = {}
    for volume in pod["spec"].get("volumes") or ():
        sources = (volume.get("projected") or {}).get("sources") or ()
        tokens = (source.get("serviceAccountToken") for source in sources)
        named += [token.get("audience") or "" for token in tokens if token is not None]
        try:
            named += _audiences_of_driver(store, _driver(store, pod, volume))
        except _NotFoundError as error:
            troubles[str(error)] = None
    told = [*troubles]
    return TokenAudiences(frozenset(named), told[0] if len(told) == 1 else _listed(told))


def _listed(told: list[str]) -> str:
    return f"[{', '.join(told)}]" if told else ""


def _driver(store: Store, pod: Object, volume: Object) -> str:
    """Returns the volume's CSI driver, empty if it has none; raises _NotFoundError."""
    namespace = pod["metadata"].get("namespace") or ""
    if volume.get("persistentVolumeClaim"):
        name = volume["persistentVolumeClaim"].get("claimName") or ""
    elif volume.get("ephemeral") is not None:
        name = f"{pod['metadata']['name']}-{volume['name']}"
    else:
        return str((volume.get("csi") or {}).get("driver") or "")
    claim = _get(store, "persistentvolumeclaim", namespace, name).get("spec") or {}
    bound = _get(store, "persistentvolume", "", claim.get("volumeName") or "").get("spec") or {}
    return str((bound.get("csi") or {}).get("driver") or "")


def _audiences_of_driver(store: Store, driver: str) -> Iterator[str]:
    if driver:
        spec = _get(store, "csidriver", "", driver, group=".storage.k8s.io").get("spec") or {}
        yield from (request.get("audience") or "" for request in spec.get("tokenRequests") or ())


def _get(store: Store, singular: str, namespace: str, name: str, *, group: str = "") -> Object:
    entry = store.get(Key(f"{singular}s{group}", namespace, name))
    if entry is None:
        raise _NotFoundError(f'{singular}{group} "{name}" not found')
    return object_of(entry)
