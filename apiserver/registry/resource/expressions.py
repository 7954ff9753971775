"""Validates the expression of a device selector.

Source: pkg/apis/resource/validation/validation.go (validateCELSelector), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.field import ErrorType, FieldError, forbidden, invalid

_MOST_COST = 1_000_000
_INTERNAL = "program instantiation failed: "


def device_selector_errors(
    expression: str, path: str, features: DeviceFeatures, *, priced: bool = True
) -> Iterator[FieldError]:
    """Yields errors of a selector; one that was stored before may use newer libraries. `priced`: its cost
    counts.
    """
    from kubeskew.apimachinery.cel.devices import compile_selector  # expressions are rare, and much to import

    selector = compile_selector(expression, features)
    if selector.error is None:
        if priced and selector.most_expensive > _MOST_COST:
            yield forbidden(path, "too complex, exceeds cost limit")
    elif str(selector.error).startswith(_INTERNAL):
        yield FieldError(ErrorType.INTERNAL, path, detail=str(selector.error))
    else:
        yield invalid(path, expression, str(selector.error))
