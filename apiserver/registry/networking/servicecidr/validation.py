"""Checks ServiceCIDRs.

Source: pkg/apis/networking/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import (
    FieldError,
    index,
    invalid,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.shared import addresses


def service_range_errors(spec: Object) -> Iterator[FieldError]:
    """Checks the spec of a ServiceCIDR: one range, or one of each family."""
    cidrs, path = spec.get("cidrs") or [], "spec.cidrs"
    if not cidrs:
        yield required(path, "at least one CIDR required")
        return
    if len(cidrs) > 2:
        yield invalid(path, {"CIDRs": cidrs}, "may only hold up to 2 values")
        return
    for position, text in enumerate(cidrs):
        yield from _canonical(text, index(path, position))
    families = [network.version for text in cidrs if (network := addresses.network(text)) is not None]
    if len(families) == 2 and families[0] == families[1]:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield invalid(path, cidrs, text)


def _canonical(text: str, path: str) -> Iterator[FieldError]:
    errors = addresses.cidr_errors(path, text, strict=True)
    yield from errors
    shown = str(addresses.network(text))
    if not errors and shown != text:
        yield invalid(path, text, f'must be in canonical form ("{shown}")')


def service_range_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = ((service_cidr.get("spec") or {}).get("cidrs") or [] for service_cidr in (new, old))
    path = "spec.cidrs"
    if len(after) == len(before):
        for position, text in enumerate(after):
            if text != before[position]:
                yield invalid(index(path, position), text, IMMUTABLE)
    elif (len(before), len(after)) == (1, 2):
        if after[0] != before[0]:
            yield invalid(index(path, 0), after[0], IMMUTABLE)
        yield from service_range_errors(new["spec"])
    else:
        yield invalid(path, (new.get("spec") or {}).get("cidrs"), IMMUTABLE)
