"""Holds the rules of volumes made of several sources, and of the files in them.

Source: pkg/apis/core/validation/validation.go (validateProjectionSources), 1.36. That of pod certificates is
from memory.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, forbidden, index, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared import downward, paths, selectors
from kubeskew.apiserver.registry.shared.internal_values import cluster_trust_bundle

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


def projected_errors(source: Object, path: str) -> Iterator[FieldError]:
    yield from paths.mode(child(path, "defaultMode"), source.get("defaultMode"))
    seen: set[str] = set()
    for position, part in enumerate(source.get("sources") or []):
        at = index(child(path, "sources"), position)
        used = [name for name in SOURCES if part.get(name) is not None]
        for name in used:
            yield from _part(name, part[name], path, child(at, name), seen)
        if len(used) > 1:
            yield forbidden(at, "may not specify more than 1 volume type per source")


def _part(name: str, source: Object, path: str, at: str, seen: set[str]) -> Iterator[FieldError]:
    """`path`: of the whole volume, where what concerns its files is told."""
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
    yield from paths.local_file(child(path, "path"), source.get("path") or "")


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
    yield from paths.unreserved(child(path, "path"), file)


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
            yield from paths.unreserved(child(path, name), source[name])


def key_to_path(item: Object, path: str) -> Iterator[FieldError]:
    if not item.get("key"):
        yield required(child(path, "key"))
    yield from paths.local_file(child(path, "path"), item.get("path") or "")
    yield from paths.mode(child(path, "mode"), item.get("mode"))


def downward_file(item: Object, path: str) -> Iterator[FieldError]:
    yield from paths.local_file(child(path, "path"), item.get("path") or "")
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
    yield from paths.mode(child(path, "mode"), item.get("mode"))
