"""Volumes of a pod follow these rules, those made of several sources and the files in them included.

Some paths are not what one would expect upstream, and so are they here. The rule of pod certificates is from
memory.

Source: pkg/apis/core/validation/validation.go (ValidateVolumes, validateVolumeSource,
validateProjectionSources), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.registry.shared import downward, selectors
from kubeskew.apiserver.registry.shared.amounts import ZERO
from kubeskew.apiserver.registry.shared.internal_values import cluster_trust_bundle
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.volumes import claims as volumes_claims
from kubeskew.apiserver.registry.shared.volumes import sources
from kubeskew.apiserver.registry.shared.volumes.sources import Rule, needed

_LEAST_SECONDS = 600
_MOST_SECONDS = 1 << 32
_DUPLICATE = "conflicting duplicate paths"
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_HOUR = 3600
_YEAR_SECONDS = 91 * 86400
SOURCES = (
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
)
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MAX_ISCSI = 64
_TOO_LONG = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName "
    "is specified."
)
_ONE_KIND = "may not specify more than 1 volume type"


def projected_errors(source: Object, path: str) -> Iterator[FieldError]:
    yield from sources.file_mode(child(path, "defaultMode"), source.get("defaultMode"))
    seen: set[str] = set()
    for position, part in enumerate(source.get("sources") or []):
        at = index(child(path, "sources"), position)
        used = [name for name in SOURCES if part.get(name) is not None]
        for name in used:
            yield from _part(name, part[name], path, child(at, name), seen)
        if len(used) > 1:
            yield forbidden(at, "may not specify more than 1 volume type per source")


def _part(name: str, source: Object, path: str, at: str, seen: set[str]) -> Iterator[FieldError]:
    """`path`: of the whole volume, which is the path of errors about its files."""
    if name in {"secret", "configMap"}:
        if not source.get("name"):
            yield required(child(at, "name"))
        for position, item in enumerate(source.get("items") or []):
            yield from key_to_path(item, index(child(at, "items"), position))
            yield from _taken(item.get("path") or "", source.get("name") or "", path, seen)
    elif name == "downwardAPI":
        for item in source.get("items") or []:
            yield from downward_file(item, at)
            yield from _taken(item.get("path") or "", item.get("path") or "", path, seen)
    elif name == "serviceAccountToken":
        yield from _token(source, path, at)
    elif name == "clusterTrustBundle":
        yield from _trust_bundle(source, at)
        yield from _taken(source.get("path") or "", source.get("path") or "", path, seen, empty=True)
    else:
        yield from _certificate(source, at)


def _taken(file: str, shown: str, path: str, seen: set[str], *, empty: bool = False) -> Iterator[FieldError]:
    if file in seen:
        yield invalid(path, shown, _DUPLICATE)
    elif file or empty:
        seen.add(file)


def _token(source: Object, path: str, at: str) -> Iterator[FieldError]:
    seconds = source.get("expirationSeconds") or 0
    if seconds < _LEAST_SECONDS:
        text = "may not specify a duration less than 10 minutes"
        yield invalid(child(at, "expirationSeconds"), seconds, text)
    if seconds > _MOST_SECONDS:
        text = "may not specify a duration larger than 2^32 seconds"
        yield invalid(child(at, "expirationSeconds"), seconds, text)
    yield from sources.local_path(child(path, "path"), source.get("path") or "")


def _trust_bundle(source: Object, path: str) -> Iterator[FieldError]:
    name, signer = source.get("name"), source.get("signerName")
    if name is not None and signer is not None:
        text = "only one of name and signerName may be used"
        yield invalid(path, cluster_trust_bundle(source), text)
    elif name is not None:
        yield from _bundle_name(name, source, path)
    elif signer is not None:
        if not signer:
            yield required(child(path, "signerName"), "must be a valid signer name")
        yield from _signer_errors(signer, child(path, "signerName"))
        if source.get("labelSelector") is not None:
            yield from selectors.selector_errors(source["labelSelector"], child(path, "labelSelector"))
    else:
        yield required(path, "either name or signerName must be specified")
    file = source.get("path") or ""
    if not file:
        yield required(child(path, "path"))
    yield from sources.unreserved_path(child(path, "path"), file)


def _bundle_name(name: str, source: Object, path: str) -> Iterator[FieldError]:
    at = child(path, "name")
    if not name:
        yield required(at, "must be a valid object name")
    last = name.rpartition(":")[2]
    texts = names.dns1123_subdomain(last)
    yield from (invalid(at, name, f"not a valid clustertrustbundlename: {text}") for text in texts)
    if source.get("labelSelector") is not None:
        text = "labelSelector must be unset if name is specified"
        yield invalid(child(path, "labelSelector"), source["labelSelector"], text)


def _signer_errors(signer: str, path: str) -> Iterator[FieldError]:
    domain, slash, rest = signer.partition("/")
    if not signer:
        yield required(path)
    elif not slash or "/" in rest:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid(path, signer, text)
    else:
        yield from (invalid(path, domain, text) for text in names.dns1123_subdomain(domain))
        yield from (invalid(path, rest, text) for text in names.dns1123_subdomain(rest))


def _certificate(source: Object, path: str) -> Iterator[FieldError]:
    yield from _signer_errors(source.get("signerName") or "", child(path, "signerName"))
    kind = source.get("keyType") or ""
    if kind not in _KEY_TYPES:
        yield not_supported(child(path, "keyType"), kind, _KEY_TYPES)
    seconds = source.get("maxExpirationSeconds")
    if seconds is not None and not _HOUR <= seconds <= _YEAR_SECONDS:
        text = f"if provided, maxExpirationSeconds must be between {_HOUR} and {_YEAR_SECONDS}"
        yield invalid(child(path, "maxExpirationSeconds"), seconds, text)
    for name in ("credentialBundlePath", "keyPath", "certificateChainPath"):
        if source.get(name):
            yield from sources.unreserved_path(child(path, name), source[name])


def key_to_path(item: Object, path: str) -> Iterator[FieldError]:
    if not item.get("key"):
        yield required(child(path, "key"))
    yield from sources.local_path(child(path, "path"), item.get("path") or "")
    yield from sources.file_mode(child(path, "mode"), item.get("mode"))


def downward_file(item: Object, path: str) -> Iterator[FieldError]:
    yield from sources.local_path(child(path, "path"), item.get("path") or "")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        yield from downward.field_errors(field, child(path, "fieldRef"), downward.VOLUME_FIELDS)
        if resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid(path, "resource", text)
    elif resource is not None:
        yield from downward.resource_errors(resource, child(path, "resourceFieldRef"), volume=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from sources.file_mode(child(path, "mode"), item.get("mode"))


def volume_errors(
    volumes: list[Object], path: str, options: PodOptions, pod_name: str = ""
) -> tuple[list[FieldError], dict[str, Object]]:
    """Volumes without an error come by name. `pod_name`: none for templates."""
    errors: list[FieldError] = []
    known: dict[str, Object] = {}
    made = {
        f"{pod_name}-{volume.get('name') or ''}" for volume in volumes if pod_name and volume.get("ephemeral")
    }
    for position, volume in enumerate(volumes):
        at = index(path, position)
        name = volume.get("name") or ""
        own = list(_source_errors(volume, name, at, options, pod_name))
        if not name:
            own.append(required(child(at, "name")))
        else:
            own += [invalid(child(at, "name"), name, text) for text in names.dns1123_label(name)]
        if name in known:
            own.append(duplicate(child(at, "name"), name))
        if not own:
            known[name] = volume
        errors += own
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in made:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(child(at, "persistentVolumeClaim.claimName"), claim, text))
    return errors, known


def _source_errors(
    volume: Object, name: str, path: str, options: PodOptions, pod_name: str
) -> Iterator[FieldError]:
    found = False
    for kind in [source for source in _SOURCES if volume.get(source) is not None]:
        if found:
            yield forbidden(child(path, _REFUSED_AS.get(kind, kind)), _ONE_KIND)
            continue
        found = True
        if kind == "csi":
            at, alone = child(path, "csi.driver"), options.features.driver_required_alone
            yield from sources.csi_driver_name(volume["csi"].get("driver") or "", at, required_alone=alone)
        yield from _SOURCES[kind](volume[kind], child(path, _SHOWN_AS.get(kind, kind)))
        if kind == "image":
            yield from _image(volume["image"], child(path, "image"), options)
        elif kind == "ephemeral" and pod_name and name:
            claim = f"{pod_name}-{name}"
            texts = names.dns1123_subdomain(claim)
            yield from (invalid(child(path, "name"), name, f'PVC name "{claim}": {text}') for text in texts)
    iscsi = volume.get("iscsi") or {}
    portal = f"{name}:{iscsi.get('targetPortal') or ''}"
    if iscsi.get("initiatorName") is not None and len(portal) > _MAX_ISCSI:
        yield invalid(child(path, "name"), name, _TOO_LONG)
    if not found:
        yield required(path, "must specify a volume type")


def _empty_dir(source: Object, path: str) -> Iterator[FieldError]:
    limit = source.get("sizeLimit")
    if limit is not None and Quantity.parse(limit) < ZERO:
        yield forbidden(child(path, "sizeLimit"), "SizeLimit field must be a valid resource quantity")


def _files(field: str) -> Rule:
    def rule(source: Object, path: str) -> Iterator[FieldError]:
        yield from needed(source, path, field)
        yield from sources.file_mode(child(path, "defaultMode"), source.get("defaultMode"))
        for position, item in enumerate(source.get("items") or []):
            yield from key_to_path(item, index(child(path, "items"), position))

    return rule


def _downward(source: Object, path: str) -> Iterator[FieldError]:
    yield from sources.file_mode(child(path, "defaultMode"), source.get("defaultMode"))
    for item in source.get("items") or []:
        yield from downward_file(item, path)


def _csi(source: Object, path: str) -> Iterator[FieldError]:
    reference = source.get("nodePublishSecretRef")
    if reference is None:
        return
    name = reference.get("name") or ""
    if not name:
        yield required(child(path, "nodePublishSecretRef.name"))
    else:
        yield from (invalid(child(path, "name"), name, text) for text in names.dns1123_subdomain(name))


def _ephemeral(source: Object, path: str) -> Iterator[FieldError]:
    template, at = source.get("volumeClaimTemplate"), child(path, "volumeClaimTemplate")
    if template is None:
        yield required(at)
    else:
        yield from volumes_claims.template_errors(template, at)


def _image(source: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    if not source.get("reference") and (options.is_pod or not options.features.templates_without_image):
        yield required(child(path, "reference"))
    policy = source.get("pullPolicy") or ""
    if not policy:
        yield required(child(path, "pullPolicy"))
    elif policy not in _PULL_POLICIES:
        yield not_supported(child(path, "pullPolicy"), policy, _PULL_POLICIES)


# In upstream's order, which decides the one that is looked at.
_SOURCES: dict[str, Rule] = {
    "emptyDir": _empty_dir,
    "hostPath": sources.host_path,
    "gitRepo": sources.git_repo,
    "gcePersistentDisk": sources.disk("pdName"),
    "awsElasticBlockStore": sources.disk("volumeID"),
    "secret": _files("secretName"),
    "nfs": sources.nfs,
    "iscsi": sources.iscsi,
    "glusterfs": sources.only("endpoints", "path"),
    "flocker": sources.flocker,
    "persistentVolumeClaim": sources.only("claimName"),
    "rbd": sources.only("monitors", "image"),
    "cinder": sources.cinder,
    "cephfs": sources.only("monitors"),
    "quobyte": sources.quobyte,
    "downwardAPI": _downward,
    "fc": sources.fibre_channel,
    "flexVolume": sources.flex,
    "configMap": _files("name"),
    "azureFile": sources.only("secretName", "shareName"),
    "vsphereVolume": sources.only("volumePath"),
    "photonPersistentDisk": sources.only("pdID"),
    "portworxVolume": sources.only("volumeID"),
    "azureDisk": sources.azure_disk,
    "storageos": sources.storage_os,
    "projected": projected_errors,
    "scaleIO": sources.only("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": lambda _, __: iter(()),
}
_SHOWN_AS = {"gcePersistentDisk": "persistentDisk"}
_REFUSED_AS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
