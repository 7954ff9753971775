"""Holds strategies of kinds with complete rules of their own, as upstream's Validate and ValidateUpdate."""

from typing import ClassVar

from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.check_order import AS_NEW_AND_AS_CHANGE, Check, Checks
from kubeskew.apiserver.registry.generic.strategy import Strategy


class HandwrittenValidation(Strategy):
    """Checks by the kind's own rules alone: none follows from the schema."""

    create_checks: ClassVar[Checks] = (Check.METADATA, Check.OWN_RULES)
    update_checks: ClassVar[Checks] = (Check.METADATA_CHANGE, Check.CHANGE)


class HandwrittenBuiltIn(HandwrittenValidation, BuiltIn):
    """A built-in kind with rules of its own."""


class ValidatedAsNew(HandwrittenBuiltIn):
    """A kind whose changes are looked at twice: as new objects, and as changes."""

    update_checks: ClassVar[Checks] = AS_NEW_AND_AS_CHANGE


class WithoutMetadata(HandwrittenValidation):
    """A kind that does not look at its metadata: only what holds for all is asked of it."""

    create_checks: ClassVar[Checks] = (Check.OWN_RULES,)
    update_checks: ClassVar[Checks] = (Check.CHANGE,)
