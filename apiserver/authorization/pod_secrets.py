"""Lists the names of the secrets that a pod refers to.

Source: k8s.io/kubernetes/pkg/api/pod/util.go (VisitPodSecretNames), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.objects import Object

_REFERRING = ("cephfs", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")


def secret_names(spec: Object) -> Iterator[str]:
    """Yields the names, in order and with repetitions; a reference without a name counts."""
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
