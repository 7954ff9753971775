"""The formats of texts (`+k8s:format=…`).

Source: k8s.io/apimachinery pkg/api/validate/strfmt.go and its folder content, 1.35 and 1.36;
k8s-prefixed-label-key: 1.37.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, invalid, too_long
from kubeskew.apimachinery.go_formats import quoted

Format = Callable[[str, str], Iterator[FieldError]]

_MAX_LONG_NAME = 253
_MAX_DOMAIN = 63
_MAX_IDENTIFIER = 32
_LOWER_CASE = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric"
_ANY_CASE = "an RFC 1123 subdomain must consist of alphanumeric"
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_QUOTA, _NATIVE = "requests.", "kubernetes.io/"


def short_name(value: str, path: str) -> Iterator[FieldError]:
    """A label of DNS."""
    yield from (invalid(path, value, _in_bytes(text)) for text in names.dns1123_label(value))


def long_name(value: str, path: str) -> Iterator[FieldError]:
    """A subdomain of DNS."""
    yield from (invalid(path, value, text) for text in long_name_texts(value))


def long_name_caseless(value: str, path: str) -> Iterator[FieldError]:
    """A subdomain of DNS that may have capitals."""
    for text in long_name_texts(value.lower()):
        yield invalid(
            path, value, text.replace(_LOWER_CASE, _ANY_CASE).replace("'example.com'", "'Example.com'")
        )


def label_key(value: str, path: str) -> Iterator[FieldError]:
    yield from (invalid(path, value, _in_bytes(text)) for text in names.qualified_name(value))


def prefixed_label_key(value: str, path: str) -> Iterator[FieldError]:
    texts = [_in_bytes(text) for text in names.qualified_name(value)]
    if not texts and "/" not in value:
        texts = ["must include a prefix (e.g. 'example.com/key')"]
    yield from (invalid(path, value, text) for text in texts)


def label_value(value: str, path: str) -> Iterator[FieldError]:
    yield from (invalid(path, value, text) for text in names.label_value(value))


def path_segment_name(value: str, path: str) -> Iterator[FieldError]:
    """One segment of a URL's path."""
    yield from (invalid(path, value, text) for text in names.path_segment(value))


def uuid(value: str, path: str) -> Iterator[FieldError]:
    if _UUID.fullmatch(value) is None:
        yield invalid(path, value, "must be a lowercase UUID in 8-4-4-4-12 format")


def resource_pool_name(value: str, path: str) -> Iterator[FieldError]:
    """Long names between slashes, which are checked one by one."""
    if len(value.encode()) > _MAX_LONG_NAME:
        yield too_long(path, _MAX_LONG_NAME)
    for position, segment in enumerate(value.split("/")):
        if not segment:
            yield invalid(path, value, f"segment {position}: must not be empty")
        else:
            texts = long_name_texts(segment)
            yield from (invalid(path, segment, f"segment {position}: {text}") for text in texts)


def extended_resource_name(value: str, path: str) -> Iterator[FieldError]:
    """A name with a domain, which must be a label key also as a name in quotas."""
    if "/" not in value:
        yield invalid(path, value, "a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif _NATIVE in value:
        yield invalid(path, value, f"must not have {quoted(_NATIVE)} domain")
    if value.startswith(_QUOTA):
        yield invalid(path, value, f"must not have {quoted(_QUOTA)} prefix")
    yield from (invalid(path, value, _in_bytes(text)) for text in names.qualified_name(_QUOTA + value))


def resource_fully_qualified_name(value: str, path: str) -> Iterator[FieldError]:
    """A domain and a C identifier; more slashes than one are let through."""
    parts = value.split("/")
    if len(parts) == 1:
        yield from _identifier(value, path)
    elif len(parts) == 2:
        domain, name = parts
        if not domain:
            yield invalid(path, "", "prefix must not be empty")
        else:
            if len(domain.encode()) > _MAX_DOMAIN:
                yield too_long(path, _MAX_DOMAIN)
            yield from (invalid(path, domain, f"prefix: {text}") for text in long_name_texts(domain))
        if name:
            yield from _identifier(name, path)
        else:
            yield invalid(path, "", "name must not be empty")
    if "/" not in value:
        yield invalid(path, value, "a fully qualified name must be a domain and a name separated by a slash")


def _identifier(value: str, path: str) -> Iterator[FieldError]:
    if len(value.encode()) > _MAX_IDENTIFIER:
        yield too_long(path, _MAX_IDENTIFIER)
    yield from (invalid(path, value, text) for text in names.c_identifier(value))


FORMATS: Mapping[str, Format] = {
    "k8s-extended-resource-name": extended_resource_name,
    "k8s-label-key": label_key,
    "k8s-label-value": label_value,
    "k8s-long-name": long_name,
    "k8s-long-name-caseless": long_name_caseless,
    "k8s-path-segment-name": path_segment_name,
    "k8s-prefixed-label-key": prefixed_label_key,
    "k8s-resource-fully-qualified-name": resource_fully_qualified_name,
    "k8s-resource-pool-name": resource_pool_name,
    "k8s-short-name": short_name,
    "k8s-uuid": uuid,
}


def long_name_texts(value: str, prefix: bool = False) -> list[str]:
    """`prefix`: the value is a generateName. No texts mean that it is fine."""
    return [_in_bytes(text) for text in names.dns1123_subdomain(value, prefix)]


def _in_bytes(text: str) -> str:
    """Upstream's packages for declared rules count bytes, those for other names characters."""
    return re.sub(r"^(prefix part )?(must be no more than \d+) characters$", r"\1\2 bytes", text)
