"""Defaults of storage.k8s.io, scheduling.k8s.io and certificates.k8s.io.

Source: pkg/apis/storage/v1/defaults.go and the field documentation of the others.
"""

from kubeskew.apimachinery.defaulting.context import Defaulter, DefaultingContext, fill, fill_null, struct
from kubeskew.apimachinery.defaulting.pods import volume_source
from kubeskew.apimachinery.errors import Object

CERTIFICATE_SECONDS = 86400


def storage_class(obj: Object, _: DefaultingContext) -> None:
    fill_null(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def csi_driver(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(
        spec,
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
    )
    fill(spec, volumeLifecycleModes=["Persistent"])
    if ctx.version.minor >= 27 or ctx.gates.enabled("SELinuxMountReadWriteOncePod"):
        fill_null(spec, seLinuxMount=False)


def volume_attachment(obj: Object, _: DefaultingContext) -> None:
    volume = ((obj.get("spec") or {}).get("source") or {}).get("inlineVolumeSpec")
    if volume is not None:
        volume_source(volume)


def priority_class(obj: Object, _: DefaultingContext) -> None:
    fill_null(obj, preemptionPolicy="PreemptLowerPriority")


def pod_group_mode_name(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), disruptionMode="Pod")


def pod_group_mode(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), disruptionMode={"single": {}})


def pod_certificate_request(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), maxExpirationSeconds=CERTIFICATE_SECONDS)


DEFAULTERS: dict[str, Defaulter] = {
    "io.k8s.api.storage.v1.StorageClass": storage_class,
    "io.k8s.api.storage.v1.CSIDriver": csi_driver,
    "io.k8s.api.storage.v1.VolumeAttachment": volume_attachment,
    "io.k8s.api.scheduling.v1.PriorityClass": priority_class,
    "io.k8s.api.scheduling.v1alpha2.PodGroup": pod_group_mode_name,
    "io.k8s.api.scheduling.v1alpha3.PodGroup": pod_group_mode,
    "io.k8s.api.scheduling.v1beta1.PodGroup": pod_group_mode,
    "io.k8s.api.scheduling.v1alpha3.CompositePodGroup": pod_group_mode,
    "io.k8s.api.certificates.v1alpha1.PodCertificateRequest": pod_certificate_request,
    "io.k8s.api.certificates.v1beta1.PodCertificateRequest": pod_certificate_request,
}
