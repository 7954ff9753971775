"""Upstream declares these rules with its types (`+k8s:format`, `+k8s:minimum`); repeats are found here too.

Source: k8s.io/apimachinery pkg/api/validate (strfmt.go, limits.go) and its folder content, 1.36.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, duplicate, index, invalid, required, too_long
from kubeskew.apimachinery.golang.device_structs import imported_struct
from kubeskew.apimachinery.objects import Object

_MAX_LONG_NAME = 253
_LOWER_CASE = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric"
_ANY_CASE = "an RFC 1123 subdomain must consist of alphanumeric"

Format = Callable[[str, str], Iterator[FieldError]]


def repeats(values: Iterable[Hashable]) -> frozenset[int]:
    """A position is that of a value that stands further in front too, found in one pass: lists may be
    long."""
    seen: set[Hashable] = set()
    found = set()
    for position, value in enumerate(values):
        if value in seen:
            found.add(position)
        seen.add(value)
    return frozenset(found)


def short_name(value: str, path: str) -> Iterator[FieldError]:
    """k8s-short-name is a label of DNS."""
    yield from (invalid(path, value, _in_bytes(text)) for text in names.dns1123_label(value))


def long_name(value: str, path: str) -> Iterator[FieldError]:
    """k8s-long-name is a subdomain of DNS."""
    yield from (invalid(path, value, text) for text in long_name_texts(value))


def long_name_caseless(value: str, path: str) -> Iterator[FieldError]:
    """k8s-long-name-caseless is a subdomain of DNS that may have capitals."""
    for text in long_name_texts(value.lower()):
        yield invalid(
            path, value, text.replace(_LOWER_CASE, _ANY_CASE).replace("'example.com'", "'Example.com'")
        )


def pool_name(value: str, path: str) -> Iterator[FieldError]:
    """k8s-resource-pool-name is checked segment by segment."""
    if len(value.encode()) > _MAX_LONG_NAME:
        yield too_long(path, _MAX_LONG_NAME)
    for position, segment in enumerate(value.split("/")):
        if not segment:
            yield invalid(path, value, f"segment {position}: must not be empty")
        else:
            texts = long_name_texts(segment)
            yield from (invalid(path, segment, f"segment {position}: {text}") for text in texts)


def path_segment_name(value: str, path: str) -> Iterator[FieldError]:
    """k8s-path-segment-name is one segment of a URL's path."""
    yield from (invalid(path, value, text) for text in names.path_segment(value))


def needed(obj: Object, field: str, path: str, rule: Format) -> Iterator[FieldError]:
    """A missing text (`+k8s:required`) is not checked for its format."""
    value, at = obj.get(field) or "", child(path, field)
    if value:
        yield from rule(value, at)
    else:
        yield required(at)


def at_least(number: int, least: int, path: str) -> Iterator[FieldError]:
    if number < least:
        yield invalid(path, number, f"must be greater than or equal to {least}")


def at_most(number: int, most: int, path: str) -> Iterator[FieldError]:
    if number > most:
        yield invalid(path, number, f"must be less than or equal to {most}")


def unique_conditions(conditions: list[Object], path: str) -> Iterator[FieldError]:
    """A condition whose type an earlier one has is reported whole (`+k8s:listMapKey=type`)."""
    seen = set()
    for position, condition in enumerate(conditions):
        name = condition.get("type") or ""
        if name in seen:
            yield duplicate(index(path, position), imported_struct(condition, "metav1.Condition"))
        seen.add(name)


def long_name_texts(value: str, prefix: bool = False) -> list[str]:
    """`prefix`: the value is a generateName. No texts mean that it is fine."""
    return [_in_bytes(text) for text in names.dns1123_subdomain(value, prefix)]


def _in_bytes(text: str) -> str:
    return text.replace("characters", "bytes") if text.startswith("must be no more than ") else text
