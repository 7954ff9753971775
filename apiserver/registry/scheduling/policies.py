"""Checks the policies that Workloads and PodGroups hold.

Source: pkg/apis/scheduling/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, invalid, required
from kubeskew.apimachinery.objects import Object

_POLICIES = ("basic", "gang")


def label_errors(obj: Object, field: str, path: str) -> Iterator[FieldError]:
    at, value = child(path, field), obj.get(field) or ""
    if not value:
        yield required(at)
    else:
        yield from (invalid(at, value, text) for text in names.dns1123_label(value))


def policy_errors(policy: Object, path: str) -> Iterator[FieldError]:
    given = [name for name in _POLICIES if policy.get(name) is not None]
    if not given:
        yield invalid(path, "", "must specify one of: `basic`, `gang`")
    elif len(given) > 1:
        text = "exactly one of `basic`, `gang` is required, but multiple fields are set"
        yield invalid(path, "{`basic`, `gang`}", text)
    elif given == ["gang"]:
        least, at = policy["gang"].get("minCount") or 0, child(child(path, "gang"), "minCount")
        if not least:
            yield required(at)
        elif least < 0:
            yield invalid(at, least, "must be greater than zero")
