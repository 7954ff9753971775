"""Lists the objects that a pod needs on its node.

Source: k8s.io/kubernetes/plugin/pkg/auth/authorizer/node/graph.go (AddPod, AddPV), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.authorization.pod_secrets import secret_names

MIRROR = "kubernetes.io/config.mirror"
Reference = tuple[str, str, str]  # storage resource, namespace, name
_CLAIMS = "resourceclaims.resource.k8s.io"


def references(pod: Object) -> Iterator[Reference]:
    """Yields what the pod's kubelet may read because of it; nothing for a mirror pod, which a node makes
    itself.
    """
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
    """Yields the config maps that a pod's spec names."""
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
    """Yields the secrets that a kubelet needs to mount a persistent volume."""
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
