"""Holds the rules that slices and parameters of 1.30 share with those of KEP-4381's draft.

Source: pkg/apis/resource/validation/validation.go, 1.30.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, child, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE

SEVERAL = "exactly one field must be set, not several"


def slice_change_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Checks what of a slice may change: neither node nor driver."""
    for name in ("nodeName", "driverName"):
        if (new.get(name) or "") != (old.get(name) or ""):
            yield invalid(name, new.get(name) or "", IMMUTABLE)


def origin_errors(reference: Object | None) -> Iterator[FieldError]:
    """Checks what parameters were generated from."""
    if reference is not None:
        for name in ("kind", "name"):
            if not reference.get(name):
                yield required(child("generatedFrom", name))
