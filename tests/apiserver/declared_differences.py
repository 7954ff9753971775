"""Compares what declared rules find with what hand-written ones do, as upstream does: by type and path.

Upstream looks at the origin of errors, too. Texts differ, and where both exist the hand-written ones count.
"""

import re
from collections.abc import Iterable
from typing import Any

from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.field import ErrorType, FieldError
from kubeskew.apimachinery.schema import Rules, Schema
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.registry.declarative.checks import Operation
from kubeskew.apiserver.registry.declarative.compiler import Compiler, Settings

MINORS = (35, 36)
# Errors that upstream's declared rules find and its hand-written ones do not, by minor.
ONLY_DECLARED = {
    # The domain of a name may not have capitals; by hand it may.
    ("FieldValueInvalid", "spec.devices.constraints[].matchAttribute"): MINORS,
    # An effect is looked at though it is empty; by hand the tolerations of results are not looked at.
    ("FieldValueNotSupported", "spec.devices.requests[].exactly.tolerations[].effect"): (35,),
    ("FieldValueNotSupported", "status.allocation.devices.results[].tolerations[].effect"): MINORS,
    ("FieldValueNotSupported", "status.allocation.devices.results[].tolerations[].operator"): MINORS,
    # Empty lists of values are no values; by hand they are.
    ("FieldValueInvalid", "spec.devices[].attributes[m]"): (36,),
}
# The errors that a tag makes, at its field.
MADE = {
    ErrorType.REQUIRED: {"required"},
    ErrorType.TOO_MANY: {"maxItems"},
    ErrorType.NOT_SUPPORTED: {"enum"},
    ErrorType.TOO_LONG: {"maxLength", "maxBytes"},
    ErrorType.INVALID: {"format", "immutable"},
}


def declared(minor: int, kind: str, new: Any, old: Any = None) -> list[FieldError]:
    schema = types_of(Version(minor))[f"io.k8s.api.resource.v1.{kind}"]
    operation = Operation(old is not None)
    compiler = Compiler(Settings(lengths_in_bytes=minor == 35))
    return [error for error, _ in compiler.struct(schema)(operation, "", new, old)]


def tags_in(rules: Rules) -> Iterable[str]:
    for name, *arguments in rules:
        yield name
        for argument in arguments:
            if isinstance(argument, list) and argument:
                yield from tags_in(argument if isinstance(argument[0], list) else [argument])


def is_declared(error: FieldError, schema: Schema | None) -> bool:
    """The field of the error has a tag that makes such errors."""
    rules: Rules = ()
    for name in re.findall(r"[^.\[\]]+|\[[^\]]*\]", error.path):
        if schema is None:
            return False
        if name.startswith("["):
            schema, rules = schema.items, ()
            continue
        field = schema.fields.get(name)
        schema, rules = (field.schema, field.rules) if field is not None else (None, ())
    return bool(set(tags_in(rules)) & MADE.get(error.type, set()))


def places(errors: Iterable[FieldError]) -> set[tuple[str, str]]:
    return {(str(error.type), error.path) for error in errors}


def differences(
    minor: int, kind: str, by_hand: list[FieldError], new: Any, old: Any = None
) -> set[tuple[str, str]]:
    """Types and paths of the errors that only one side finds, and that are not known to be so upstream."""
    found = declared(minor, kind, new, old)
    schema = types_of(Version(minor))[f"io.k8s.api.resource.v1.{kind}"]
    expected = places(error for error in by_hand if is_declared(error, schema))
    excused = {
        (error, path)
        for error, path in places(found)
        if minor in ONLY_DECLARED.get((error, re.sub(r"\[\d+\]", "[]", path)), ())
    }
    return (places(found) - places(by_hand) - excused) | (expected - places(found))
