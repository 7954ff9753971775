"""Relates nodes to the objects that their pods need, and follows the store.

Upstream walks a graph; here each object knows how many pods of which node refer to it.

Sources: k8s.io/kubernetes/pkg/api/pod/util.go (VisitPodSecretNames), 1.36;
k8s.io/kubernetes/plugin/pkg/auth/authorizer/node/graph.go (AddPod, AddPV), 1.36;
k8s.io/kubernetes/plugin/pkg/auth/authorizer/node/{graph,graph_populator}.go, 1.36.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.caching.store_cache import ChangeTracker
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import known_object

_REFERRING = ("cephfs", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
MIRROR = "kubernetes.io/config.mirror"
Reference = tuple[str, str, str]  # storage resource, namespace, name
_CLAIMS = "resourceclaims.resource.k8s.io"
PODS, VOLUMES = "pods", "persistentvolumes"
ATTACHMENTS = "volumeattachments.storage.k8s.io"
# Of devices, and of KEP-4381's draft.
SLICES = ("resourceslices.resource.k8s.io", "noderesourceslices.resource.k8s.io")
CERTIFICATES = "podcertificaterequests.certificates.k8s.io"


def secret_names(spec: Object) -> Iterator[str]:
    """Names come in order and with repetitions; a reference without a name counts."""
    for secret in spec.get("imagePullSecrets") or ():
        yield secret.get("name") or ""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            yield from _of_container(container)
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume)


def _of_container(container: Object) -> Iterator[str]:
    for source in container.get("envFrom") or ():
        if source.get("secretRef") is not None:
            yield source["secretRef"].get("name") or ""
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
        if reference is not None:
            yield reference.get("name") or ""


def _of_volume(volume: Object) -> Iterator[str]:
    if (volume.get("azureFile") or {}).get("secretName"):
        yield volume["azureFile"]["secretName"]
    for kind in _REFERRING:
        reference = (volume.get(kind) or {}).get("secretRef")
        if reference is not None:
            yield reference.get("name") or ""
    for source in (volume.get("projected") or {}).get("sources") or ():
        if source.get("secret") is not None:
            yield source["secret"].get("name") or ""
    if volume.get("secret") is not None:
        yield volume["secret"].get("secretName") or ""
    reference = (volume.get("csi") or {}).get("nodePublishSecretRef")
    if reference is not None:
        yield reference.get("name") or ""


def references(pod: Object) -> Iterator[Reference]:
    """The pod's kubelet may read these; mirror pods, which nodes make themselves, have none."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    namespace = metadata.get("namespace") or ""
    if MIRROR in (metadata.get("annotations") or {}):
        return
    if account := spec.get("serviceAccountName"):
        yield "serviceaccounts", namespace, account
    for name in secret_names(spec):
        yield "secrets", namespace, name
    for name in config_map_names(spec):
        yield "configmaps", namespace, name
    for volume in spec.get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield "persistentvolumeclaims", namespace, volume["persistentVolumeClaim"].get("claimName") or ""
        elif volume.get("ephemeral") is not None:
            yield "persistentvolumeclaims", namespace, f"{metadata['name']}-{volume['name']}"
    for name in _claim_names(pod):
        yield _CLAIMS, namespace, name


def config_map_names(spec: Object) -> Iterator[str]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            for source in container.get("envFrom") or ():
                if source.get("configMapRef") is not None:
                    yield source["configMapRef"].get("name") or ""
            for variable in container.get("env") or ():
                reference = (variable.get("valueFrom") or {}).get("configMapKeyRef")
                if reference is not None:
                    yield reference.get("name") or ""
    for volume in spec.get("volumes") or ():
        sources = (volume.get("projected") or {}).get("sources") or ()
        for part in (volume, *sources):
            if part.get("configMap") is not None:
                yield part["configMap"].get("name") or ""


def _claim_names(pod: Object) -> Iterator[str]:
    status = pod.get("status") or {}
    made = {
        claim_status["name"]: claim_status.get("resourceClaimName")
        for claim_status in status.get("resourceClaimStatuses") or ()
    }
    for claim in (pod.get("spec") or {}).get("resourceClaims") or ():
        source = claim.get("source") or claim  # up to 1.30 the names stood one level below
        if source.get("resourceClaimName"):
            yield source["resourceClaimName"]
        elif name := made.get(claim["name"]):
            yield name
        elif "source" in claim and claim["name"] not in made:  # before statuses: named after the pod
            yield f"{pod['metadata']['name']}-{claim['name']}"
    extended = status.get("extendedResourceClaimStatus") or {}
    if extended.get("resourceClaimName"):
        yield extended["resourceClaimName"]


def volume_secrets(volume: Object) -> Iterator[Reference]:
    spec = volume.get("spec") or {}
    claim = spec.get("claimRef") or {}
    for kind in ("cephfs", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"):
        if (reference := (spec.get(kind) or {}).get("secretRef")) is not None:
            namespace = reference.get("namespace") or claim.get("namespace") or ""
            yield "secrets", namespace, reference.get("name") or ""
    if name := (spec.get("azureFile") or {}).get("secretName"):
        yield "secrets", spec["azureFile"].get("secretNamespace") or claim.get("namespace") or "", name
    for name in ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"):
        if reference := (spec.get("csi") or {}).get(name):
            yield "secrets", reference.get("namespace") or "", reference.get("name") or ""


class Graph:
    """Counts for each object how many pods of which node refer to it."""

    def __init__(self, store: Store) -> None:
        self._following = ChangeTracker(store, (PODS, VOLUMES, ATTACHMENTS, *SLICES, CERTIFICATES))
        self._held: dict[Key, tuple[str, tuple[Reference, ...]]] = {}  # by pod, attachment, slice
        self._nodes: dict[Reference, Counter[str]] = {}
        self._volumes: dict[Key, tuple[Reference, ...]] = {}  # the claim first, then secrets
        self._of_secret: dict[Reference, set[Key]] = {}

    def related(self, node: str, what: Reference) -> bool:
        self._refresh()
        if self._needs(node, what):
            return True
        resource, _, name = what
        if resource == VOLUMES:
            return self._has_volume(node, Key(VOLUMES, "", name))
        return any(self._has_volume(node, volume) for volume in self._of_secret.get(what, ()))

    def _has_volume(self, node: str, volume: Key) -> bool:
        found = self._volumes.get(volume)
        return found is not None and self._needs(node, found[0])

    def _needs(self, node: str, what: Reference) -> bool:
        nodes = self._nodes.get(what)
        return nodes is not None and node in nodes

    def _refresh(self) -> None:
        if not self._following:
            return
        for key, entry in self._following.take():
            if key.resource == VOLUMES:
                self._put_volume(key, entry)
            else:
                self._put(key, entry)

    def _put(self, key: Key, entry: Entry | None) -> None:
        obj = known_object(entry) if entry else None
        new = _relations(key, obj) if obj is not None else None
        old = self._held.get(key)
        if new == old:
            return
        if old is not None:
            self._count(old[0], old[1], -1)
            del self._held[key]
        if new is not None:
            self._held[key] = new
            self._count(new[0], new[1], 1)

    def _count(self, node: str, what: Iterable[Reference], change: int) -> None:
        for reference in what:
            nodes = self._nodes.setdefault(reference, Counter())
            nodes[node] += change
            if not nodes[node]:
                del nodes[node]
            if not nodes:
                del self._nodes[reference]

    def _put_volume(self, key: Key, entry: Entry | None) -> None:
        for secret in self._volumes.pop(key, ())[1:]:
            self._of_secret[secret].discard(key)
            if not self._of_secret[secret]:
                del self._of_secret[secret]
        volume = (known_object(entry) if entry else None) or {}
        claim = (volume.get("spec") or {}).get("claimRef")
        if not claim:
            return
        bound = "persistentvolumeclaims", claim.get("namespace") or "", claim.get("name") or ""
        secrets = tuple(dict.fromkeys(volume_secrets(volume)))
        self._volumes[key] = (bound, *secrets)
        for secret in secrets:
            self._of_secret.setdefault(secret, set()).add(key)


def _relations(key: Key, obj: Object) -> tuple[str, tuple[Reference, ...]] | None:
    """An object brings itself to its node, and a pod all that it needs; None without a node."""
    spec = obj.get("spec") or obj  # slices of v1alpha2 have no spec
    node = spec.get("nodeName") or ""
    if not node:
        return None
    own = (key.resource, key.namespace, key.name)
    needed = references(obj) if key.resource == PODS else ()
    return node, tuple(dict.fromkeys((own, *needed)))
