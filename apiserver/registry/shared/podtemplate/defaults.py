"""Sets the defaults of pod templates and volumes.

Source: pkg/apis/core/v1/defaults.go, 1.36.
"""

import re
from typing import Any

from kubeskew.apimachinery.memo import remembered
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, fill, fill_null, struct
from kubeskew.apiserver.registry.index import registered
from kubeskew.apiserver.registry.shared.amounts import round_amounts

FILE_MODE = 0o644

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")

TERMINATION_GRACE_SECONDS = 30

TOKEN_SECONDS = 3600

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"

_DOMAIN = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"

_NAME = rf"(?P<domain>{_DOMAIN}/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)"

_IMAGE = re.compile(
    rf"{_NAME}(?::(?P<tag>[\w][\w.-]{{0,127}}))?(?P<digest>@[A-Za-z][\w+.-]*:[0-9a-fA-F]{{32,}})?", re.ASCII
)

_IDENTIFIER = re.compile(r"[a-f0-9]{64}")

_MAX_PATH = 255


@remembered(4096)
def pull_policy(image: str) -> str:
    """The tag latest (said or not) means Always, the rest IfNotPresent, unreadable references included."""
    match = _IMAGE.fullmatch(image)
    if match is None or _IDENTIFIER.fullmatch(image) or len(_path(match)) > _MAX_PATH:
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _path(image: re.Match[str]) -> str:
    """Registries are left out: a first part that is not like a host belongs to the path."""
    host = (image["domain"] or "").removesuffix("/")
    if not host:
        return image["path"] if "/" in image["path"] else f"library/{image['path']}"
    hostlike = host == "localhost" or "." in host or ":" in host or host.lower() != host
    return image["path"] if hostlike else f"{host}/{image['path']}"


def template(obj: Object, ctx: DefaultingContext) -> None:
    """`obj` is a spec with a `template`."""
    spec = struct(struct(obj, "template"), "spec")
    pod_spec(spec, ctx)
    if spec.get("hostNetwork") and ctx.features.pods.template_host_ports:
        default_host_ports(spec)


def pod_spec(spec: Object, ctx: DefaultingContext) -> None:
    fill(spec, restartPolicy="Always", dnsPolicy="ClusterFirst", schedulerName="default-scheduler")
    fill_null(spec, terminationGracePeriodSeconds=TERMINATION_GRACE_SECONDS)
    struct(spec, "securityContext")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:  # upstream's conversion reads the old name of the field too, and writes both
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    round_amounts(spec, "overhead")
    round_amounts(spec.get("resources"), "limits", "requests")
    for volume in each(spec, "volumes"):
        _volume(volume, ctx)
    for claim in each(spec, "resourceClaims"):
        if claim.get("template") is not None:
            registered("cdi.k8s.io", "POD_CLAIM_TEMPLATES", "defaults")(claim["template"])
    for found in each(spec, "containers", "initContainers", "ephemeralContainers"):
        container(found)


def container(obj: Object) -> None:
    fill(
        obj,
        imagePullPolicy=obj.get("imagePullPolicy") or pull_policy(obj.get("image") or ""),
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )
    for port in each(obj, "ports"):
        fill(port, protocol="TCP")
    for name in PROBES:
        if obj.get(name) is not None:
            _probe(obj[name])
    for hook in (obj.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http_get(hook)
    for variable in obj.get("env") or ():
        if variable.get("valueFrom"):
            _environment_source(variable["valueFrom"])
    round_amounts(obj.get("resources"), "limits", "requests")


def _probe(probe: Object) -> None:
    fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    _http_get(probe)
    if probe.get("grpc") is not None:
        fill_null(probe["grpc"], service="")


def _http_get(handler: Object) -> None:
    if handler.get("httpGet") is not None:
        fill(handler["httpGet"], path="/", scheme="HTTP")


def _environment_source(source: Object) -> None:
    if source.get("fieldRef") is not None:
        fill(source["fieldRef"], apiVersion="v1")
    if source.get("fileKeyRef") is not None:
        fill_null(source["fileKeyRef"], optional=False)


def default_host_ports(spec: Object) -> None:
    for container_ in each(spec, "containers", "initContainers"):
        for port in each(container_, "ports"):
            fill(port, hostPort=port.get("containerPort") or 0)


# --- volumes -----------------------------------------------------------------------------------------------

_MODES = ("secret", "configMap", "downwardAPI", "projected")

_SOURCES: dict[str, dict[str, Any]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def volume_source(source: Object) -> None:
    for name, values in _SOURCES.items():
        if source.get(name) is not None:
            fill_null(source[name], **values)
    if source.get("hostPath") is not None:
        fill_null(source["hostPath"], type="")


def _volume(volume: Object, ctx: DefaultingContext) -> None:
    if not any(value is not None for name, value in volume.items() if name != "name"):
        volume["emptyDir"] = {}
    volume_source(volume)
    for name in _MODES:
        if volume.get(name) is not None:
            fill_null(volume[name], defaultMode=FILE_MODE)
    _downward_items(volume.get("downwardAPI") or {})
    for source in each(volume.get("projected") or {}, "sources"):
        _downward_items(source.get("downwardAPI") or {})
        if source.get("serviceAccountToken") is not None:
            fill_null(source["serviceAccountToken"], expirationSeconds=TOKEN_SECONDS)
    image = volume.get("image")
    if image is not None and ctx.features.pods.image_volumes:
        fill(image, pullPolicy=image.get("pullPolicy") or pull_policy(image.get("reference") or ""))
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        fill_null(struct(claim, "spec"), volumeMode="Filesystem")
        round_amounts(claim["spec"].get("resources"), "limits", "requests")


def _downward_items(source: Object) -> None:
    for item in each(source, "items"):
        if item.get("fieldRef") is not None:
            fill(item["fieldRef"], apiVersion="v1")
