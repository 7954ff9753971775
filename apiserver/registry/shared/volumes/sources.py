"""Volumes and their sources follow these rules: those that pods and persistent volumes share, and pods' own.

Those made of several sources and the files in them are included, and references to a pod's own fields and
resources, which its environment may have too. Some paths are not what one would expect upstream, and so are
they here.

Source: pkg/apis/core/validation/validation.go (ValidateVolumes, validateVolumeSource,
validateProjectionSources, validateISCSIVolumeSource and its neighbours, validateObjectFieldSelector,
validateContainerResourceFieldSelector) and pkg/apis/core/pods/helpers.go, 1.36.
"""

import re
from collections.abc import Callable, Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    key,
    not_supported,
    required,
    too_long,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.amounts import ZERO
from kubeskew.apiserver.registry.shared.internal_values import cluster_trust_bundle
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.signers import bundle_name_texts, is_kubernetes_signer, signer_errors
from kubeskew.apiserver.registry.shared.volumes import claims as volumes_claims

ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_REFERENCED_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
)  # fmt: skip
_KNOWN_FIELDS = frozenset(
    {*ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
)
_OLD_NAMES = {"spec.host": "spec.nodeName"}
_HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
_SIZES = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
_WORDS = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}


def field_reference_errors(reference: Object, path: str, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    version, field = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version or not field:
        yield required(child(path, "fieldPath" if version else "apiVersion"))
        return
    at = child(path, "fieldPath")
    plain, subscript = _subscripted(field)
    why = _not_convertible(version, plain, field)
    if why:
        yield invalid(at, field, f"error converting fieldPath: {why}")
    elif subscript is None:
        plain = _OLD_NAMES.get(plain, plain)
        if plain not in allowed:
            yield not_supported(at, plain, allowed)
    elif plain == "metadata.annotations":
        texts = names.qualified_name(subscript.lower())
        yield from (invalid(path, subscript.lower(), text) for text in texts)
    else:
        yield from (invalid(path, subscript, text) for text in names.qualified_name(subscript))


def _subscripted(field: str) -> tuple[str, str | None]:
    """`metadata.labels['x']` is taken apart."""
    found = re.fullmatch(r"(.*?)\['(.*)'\]", field, re.DOTALL)
    return (found[1], found[2]) if found and found[1] else (field, None)


def _not_convertible(version: str, plain: str, field: str) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if plain != field:
        if plain in {"metadata.annotations", "metadata.labels"}:
            return ""
        return f"field label does not support subscript: {field}"
    known = field in _KNOWN_FIELDS or field in _OLD_NAMES
    return "" if known else f"field label not supported: {field}"


def resource_reference_errors(reference: Object, path: str, *, volume: bool) -> Iterator[FieldError]:
    """A `volume`'s reference must name the container."""
    name = reference.get("resource") or ""
    if volume and not reference.get("containerName"):
        yield required(child(path, "containerName"))
    elif not name:
        yield required(child(path, "resource"))
    elif name not in _REFERENCED_RESOURCES and not name.startswith(_HUGE_PAGES):
        yield not_supported(child(path, "resource"), name, _REFERENCED_RESOURCES)
    divisor = Quantity.of(reference.get("divisor"))
    if divisor != ZERO:
        yield from _divisor_errors(name, divisor.canonical(), child(path, "divisor"))


def _divisor_errors(name: str, divisor: str, path: str) -> Iterator[FieldError]:
    kind = name.partition(".")[2]
    if name not in _REFERENCED_RESOURCES and not name.startswith(_HUGE_PAGES):
        return
    if kind == "cpu":
        if divisor not in {"1m", "1"}:
            yield invalid(path, name, "only divisor's values 1m and 1 are supported with the cpu resource")
    elif divisor not in _SIZES.split(", "):
        word = _WORDS.get(kind, "hugepages")
        yield invalid(path, name, f"only divisor's values {_SIZES} are supported with the {word} resource")


MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
Rule = Callable[[Object, str], Iterator[FieldError]]

_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_INITIATORS = {
    "iqn": r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9\-.]+)(:[^,;*&$|\s]+)$",
    "eui": r"^eui.[A-Za-z0-9]{16}$",
    "naa": r"^naa.[A-Za-z0-9]{32}$",
}
_MAX_BYTE = 255
_MAX_DRIVER = 63
_MAX_TENANT = 64
_HOST_PORTS = "must be a host:port pair or multiple pairs separated by commas"
_HOST_PORT = r"(\[[^\]]*\]|[^:\[\]]*):[^:]*"
_CACHING = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS = ("Dedicated", "Managed", "Shared")
_MANAGED_DISK = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
)
_BLOB_DISK = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def without_backsteps(path: str, value: str) -> list[FieldError]:
    return [invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def descending_path(path: str, value: str) -> list[FieldError]:
    errors = [invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    return errors + without_backsteps(path, value)


def local_path(path: str, value: str) -> list[FieldError]:
    return unreserved_path(path, value) if value else [required(path)]


def unreserved_path(path: str, value: str) -> list[FieldError]:
    errors = descending_path(path, value)
    if value.startswith("..") and not value.startswith("../") and ".." not in value.split("/"):
        errors.append(invalid(path, value, "must not start with '..'"))
    return errors


def file_mode(path: str, value: int | None) -> list[FieldError]:
    return [] if value is None or 0 <= value <= 0o777 else [invalid(path, value, MODE_TEXT)]


def needed(source: Object, path: str, *fields: str) -> Iterator[FieldError]:
    yield from (required(child(path, name)) for name in fields if not source.get(name))


def in_byte(source: Object, field: str, path: str, least: int = 0) -> Iterator[FieldError]:
    """Numbers are from 0 to 255; the text of the error names `least` as the smallest."""
    number = source.get(field) or 0
    if not 0 <= number <= _MAX_BYTE:
        yield invalid(child(path, field), number, names.range_text(least, _MAX_BYTE))


def host_path(source: Object, path: str) -> Iterator[FieldError]:
    where = source.get("path") or ""
    if not where:
        yield required(child(path, "path"))
        return
    yield from without_backsteps(child(path, "path"), where)
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        yield not_supported(child(path, "type"), kind, _HOST_PATH_TYPES)


def git_repo(source: Object, path: str) -> Iterator[FieldError]:
    yield from needed(source, path, "repository")
    yield from descending_path(child(path, "directory"), source.get("directory") or "")


def disk(field: str) -> Rule:
    def rule(source: Object, path: str) -> Iterator[FieldError]:
        yield from needed(source, path, field)
        yield from in_byte(source, "partition", path, 1)

    return rule


def only(*fields: str) -> Rule:
    def rule(source: Object, path: str) -> Iterator[FieldError]:
        yield from needed(source, path, *fields)

    return rule


def iscsi(source: Object, path: str, *, long: bool = True) -> Iterator[FieldError]:
    """`long`: the source is a pod's, whose error says more of a wrong beginning."""
    yield from needed(source, path, "targetPortal")
    name, initiator = source.get("iqn") or "", source.get("initiatorName")
    if not name:
        yield required(child(path, "iqn"))
    else:
        yield from _initiator(name, child(path, "iqn"), long=long)
    yield from in_byte(source, "lun", path)
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        yield required(child(path, "secretRef"))
    if initiator is not None:
        yield from _initiator(initiator, child(path, "initiatorname"), long=long)


def _initiator(name: str, path: str, *, long: bool) -> Iterator[FieldError]:
    pattern = _INITIATORS.get(name[:3])
    if pattern is None:
        ending = " starting with iqn, eui, or naa" if long else ""
        yield invalid(path, name, f"must be valid format{ending}")
    elif not re.search(pattern, name):
        yield invalid(path, name, "must be valid format")


def fibre_channel(source: Object, path: str) -> Iterator[FieldError]:
    targets, wide = source.get("targetWWNs") or [], source.get("wwids") or []
    at, lun = child(path, "targetWWNs"), source.get("lun")
    if not targets and not wide:
        yield required(at, "must specify either targetWWNs or wwids, but not both")
    if targets and wide:
        yield invalid(at, targets, "targetWWNs and wwids can not be specified simultaneously")
    if targets and lun is None:
        yield required(child(path, "lun"), "lun is required if targetWWNs is specified")
    elif targets:
        yield from in_byte(source, "lun", path)


def nfs(source: Object, path: str) -> Iterator[FieldError]:
    where = source.get("path") or ""
    yield from needed(source, path, "server", "path")
    if not where.startswith("/"):
        yield invalid(child(path, "path"), where, "must be an absolute path")


def quobyte(source: Object, path: str) -> Iterator[FieldError]:
    registry = source.get("registry") or ""
    if not registry:
        yield required(child(path, "registry"), _HOST_PORTS)
    elif len(source.get("tenant") or "") > _MAX_TENANT:
        text = "must be a UUID and may not exceed a length of 64 characters"
        yield required(child(path, "tenant"), text)
    else:
        wrong = (pair for pair in registry.split(",") if not re.fullmatch(_HOST_PORT, pair))
        yield from (invalid(child(path, "registry"), registry, _HOST_PORTS) for _ in wrong)
    yield from needed(source, path, "volume")


def flocker(source: Object, path: str) -> Iterator[FieldError]:
    name, uid = source.get("datasetName") or "", source.get("datasetUUID") or ""
    if not name and not uid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uid:
        yield invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name:
        yield invalid(child(path, "datasetName"), name, "must not contain '/'")


def secret_reference(source: Object, path: str, *fields: str) -> Iterator[FieldError]:
    if source.get("secretRef") is not None:
        yield from needed(source["secretRef"], child(path, "secretRef"), *fields)


def cinder(source: Object, path: str) -> Iterator[FieldError]:
    yield from needed(source, path, "volumeID")
    yield from secret_reference(source, path, "name")


def flex(source: Object, path: str) -> Iterator[FieldError]:
    yield from needed(source, path, "driver")
    for name in sorted(source.get("options") or {}):
        domain = f".{name.partition('/')[0].lower()}"
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid(key(child(path, "options"), name), name, text)


def azure_disk(source: Object, path: str) -> Iterator[FieldError]:
    yield from needed(source, path, "diskName", "diskURI")
    kind, address = source.get("kind"), source.get("diskURI") or ""
    for field, allowed in (("cachingMode", _CACHING), ("kind", _DISK_KINDS)):
        value = source.get(field)
        if value is not None and value not in allowed:
            yield not_supported(child(path, field), value, allowed)
    if kind == "Managed" and not address.startswith("/subscriptions/"):
        yield not_supported(child(path, "diskURI"), address, (_MANAGED_DISK,))
    if kind is not None and kind != "Managed" and not address.startswith("https://"):
        yield not_supported(child(path, "diskURI"), address, (_BLOB_DISK,))


def storage_os(source: Object, path: str) -> Iterator[FieldError]:
    name, namespace = source.get("volumeName") or "", source.get("volumeNamespace") or ""
    at = child(path, "volumeName")
    if not name:
        yield required(at)
    else:
        yield from (invalid(at, name, text) for text in names.dns1123_label(name))
    if namespace:
        at = child(path, "volumeNamespace")
        yield from (invalid(at, namespace, text) for text in names.dns1123_label(namespace))
    yield from secret_reference(source, path, "name")


def csi_driver_name(name: str, path: str, *, required_alone: bool = True) -> Iterator[FieldError]:
    """`required_alone`: of a missing name nothing else is said (since 1.35)."""
    if not name:
        yield required(path)
        if required_alone:
            return
    if len(name) > _MAX_DRIVER:
        yield too_long(path, _MAX_DRIVER)
    yield from (invalid(path, name, text) for text in names.dns1123_subdomain(name.lower()))


_LEAST_SECONDS = 600
_MOST_SECONDS = 1 << 32
_DUPLICATE = "conflicting duplicate paths"
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_CERTIFICATE_FILES = ("credentialBundlePath", "keyPath", "certificateChainPath")
_HOUR = 3600
_MOST_CERTIFICATE_SECONDS = 91 * 86400
_MOST_OWN_SECONDS = 86400  # of signers of kubernetes.io
_MOST_ANNOTATIONS = 256 * 1024
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
    yield from file_mode(child(path, "defaultMode"), source.get("defaultMode"))
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
        yield from _certificate(source, path, at, seen)


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
    yield from local_path(child(path, "path"), source.get("path") or "")


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
        yield from signer_errors(signer, child(path, "signerName"))
        if source.get("labelSelector") is not None:
            yield from selectors.selector_errors(source["labelSelector"], child(path, "labelSelector"))
    else:
        yield required(path, "either name or signerName must be specified")
    file = source.get("path") or ""
    if not file:
        yield required(child(path, "path"))
    yield from unreserved_path(child(path, "path"), file)


def _bundle_name(name: str, source: Object, path: str) -> Iterator[FieldError]:
    at = child(path, "name")
    if not name:
        yield required(at, "must be a valid object name")
    texts = bundle_name_texts(name, name.rpartition(":")[0].replace(":", "/"), False)
    yield from (invalid(at, name, f"not a valid clustertrustbundlename: {text}") for text in texts)
    if source.get("labelSelector") is not None:
        text = "labelSelector must be unset if name is specified"
        yield invalid(child(path, "labelSelector"), source["labelSelector"], text)


def _certificate(source: Object, path: str, at: str, seen: set[str]) -> Iterator[FieldError]:
    signer = source.get("signerName") or ""
    yield from signer_errors(signer, child(at, "signerName"))
    yield from _user_annotations(source.get("userAnnotations") or {}, child(at, "userAnnotations"))
    kind = source.get("keyType") or ""
    if kind not in _KEY_TYPES:
        yield not_supported(child(at, "keyType"), kind, _KEY_TYPES)
    seconds = source.get("maxExpirationSeconds")
    if seconds is not None:
        most = _MOST_OWN_SECONDS if is_kubernetes_signer(signer) else _MOST_CERTIFICATE_SECONDS
        for wrong, bound in ((seconds < _HOUR, f">= {_HOUR}"), (seconds > most, f"<= {most}")):
            if wrong:
                text = f"if provided, maxExpirationSeconds must be {bound}"
                yield invalid(child(at, "maxExpirationSeconds"), seconds, text)
    files = [name for name in _CERTIFICATE_FILES if source.get(name)]
    for name in files:
        yield from unreserved_path(child(at, name), source[name])
        yield from _taken(source[name], source[name], path, seen)
    if not files:
        text = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        yield required(at, text)


def _user_annotations(annotations: dict[str, str], path: str) -> Iterator[FieldError]:
    for name in sorted(annotations):
        lower = name.lower()
        texts = names.qualified_name(lower) if lower else []
        if not lower:
            yield required(path)
        elif texts:
            yield from (invalid(path, lower, text) for text in texts)
        elif "/" not in lower:
            yield invalid(path, lower, 'must be a domain-prefixed key (such as "acme.io/foo")')
    if sum(len(part.encode()) for pair in annotations.items() for part in pair) > _MOST_ANNOTATIONS:
        yield too_long(path, _MOST_ANNOTATIONS)


def key_to_path(item: Object, path: str) -> Iterator[FieldError]:
    if not item.get("key"):
        yield required(child(path, "key"))
    yield from local_path(child(path, "path"), item.get("path") or "")
    yield from file_mode(child(path, "mode"), item.get("mode"))


def downward_file(item: Object, path: str) -> Iterator[FieldError]:
    yield from local_path(child(path, "path"), item.get("path") or "")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        yield from field_reference_errors(field, child(path, "fieldRef"), VOLUME_FIELDS)
        if resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid(path, "resource", text)
    elif resource is not None:
        yield from resource_reference_errors(resource, child(path, "resourceFieldRef"), volume=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from file_mode(child(path, "mode"), item.get("mode"))


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
            yield from csi_driver_name(volume["csi"].get("driver") or "", at, required_alone=alone)
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
        yield from file_mode(child(path, "defaultMode"), source.get("defaultMode"))
        for position, item in enumerate(source.get("items") or []):
            yield from key_to_path(item, index(child(path, "items"), position))

    return rule


def _downward(source: Object, path: str) -> Iterator[FieldError]:
    yield from file_mode(child(path, "defaultMode"), source.get("defaultMode"))
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
    "hostPath": host_path,
    "gitRepo": git_repo,
    "gcePersistentDisk": disk("pdName"),
    "awsElasticBlockStore": disk("volumeID"),
    "secret": _files("secretName"),
    "nfs": nfs,
    "iscsi": iscsi,
    "glusterfs": only("endpoints", "path"),
    "flocker": flocker,
    "persistentVolumeClaim": only("claimName"),
    "rbd": only("monitors", "image"),
    "cinder": cinder,
    "cephfs": only("monitors"),
    "quobyte": quobyte,
    "downwardAPI": _downward,
    "fc": fibre_channel,
    "flexVolume": flex,
    "configMap": _files("name"),
    "azureFile": only("secretName", "shareName"),
    "vsphereVolume": only("volumePath"),
    "photonPersistentDisk": only("pdID"),
    "portworxVolume": only("volumeID"),
    "azureDisk": azure_disk,
    "storageos": storage_os,
    "projected": projected_errors,
    "scaleIO": only("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": lambda _, __: iter(()),
}
_SHOWN_AS = {"gcePersistentDisk": "persistentDisk"}
_REFUSED_AS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
