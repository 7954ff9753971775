"""Holds the rules of the volumes of a pod.

Source: pkg/apis/core/validation/validation.go (ValidateVolumes, validateVolumeSource), 1.36. Some paths
are not what one would expect there, and so are they here.
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
from kubeskew.apiserver.registry.shared import paths
from kubeskew.apiserver.registry.shared.amounts import ZERO
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.volumes import claims as volumes_claims
from kubeskew.apiserver.registry.shared.volumes import sources
from kubeskew.apiserver.registry.shared.volumes.projected import (
    downward_file,
    key_to_path,
    projected_errors,
)
from kubeskew.apiserver.registry.shared.volumes.sources import Rule, needed

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MAX_ISCSI = 64
_TOO_LONG = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName "
    "is specified."
)
_ONE_KIND = "may not specify more than 1 volume type"


def volume_errors(
    volumes: list[Object], path: str, options: PodOptions, pod_name: str = ""
) -> tuple[list[FieldError], dict[str, Object]]:
    """Returns the errors of the volumes, and those without an error by name. `pod_name`: none for
    templates.
    """
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
    """Returns the rule for a secret or a config map, named by `field`."""

    def rule(source: Object, path: str) -> Iterator[FieldError]:
        yield from needed(source, path, field)
        yield from paths.mode(child(path, "defaultMode"), source.get("defaultMode"))
        for position, item in enumerate(source.get("items") or []):
            yield from key_to_path(item, index(child(path, "items"), position))

    return rule


def _downward(source: Object, path: str) -> Iterator[FieldError]:
    yield from paths.mode(child(path, "defaultMode"), source.get("defaultMode"))
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
