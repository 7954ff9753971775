"""Validates the expressions of selectors: of devices, and of 1.30's named resources.

Source: pkg/apis/resource/validation/validation.go (validateCELSelector), 1.36, and
pkg/apis/resource/structured/namedresources/validation (validateSelector), 1.30.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.cel.errors import CompileError
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


def named_resources_selector_errors(expression: str, path: str, *, stored: bool) -> Iterator[FieldError]:
    """Yields the error of a selector of named resources, for which 1.30 has no limit of cost."""
    from kubeskew.apimachinery.cel.named_resources import compile_selector  # as above

    yield from _compile_errors(compile_selector, expression, path, stored=stored)


def metadata_selector_errors(expression: str, path: str, *, stored: bool) -> Iterator[FieldError]:
    """Yields the error of a selector of the semantic model `metadata`, which has no limit of cost either."""
    from kubeskew.apimachinery.cel.semantic_metadata import compile_selector  # as above

    yield from _compile_errors(compile_selector, expression, path, stored=stored)


def _compile_errors(
    compile_selector: Callable[..., Any], expression: str, path: str, *, stored: bool
) -> Iterator[FieldError]:
    try:
        compile_selector(expression, stored=stored)
    except CompileError as error:
        yield invalid(path, expression, str(error))
