"""Holds strategies of kinds with complete rules of their own, as upstream's Validate and ValidateUpdate."""

from typing import ClassVar

from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.check_order import Check, Checks
from kubeskew.apiserver.registry.generic.strategy import Strategy


class OwnRules(Strategy):
    """Checks by the kind's own rules alone: none follows from the schema."""

    checks_of_create: ClassVar[Checks] = (Check.METADATA, Check.OWN_RULES)
    checks_of_update: ClassVar[Checks] = (Check.METADATA_CHANGE, Check.CHANGE)


class Checked(OwnRules, BuiltIn):
    """A built-in kind with rules of its own."""


class CheckedAsNew(Checked):
    """A kind whose changes are looked at twice: as new objects, and as changes."""

    checks_of_update: ClassVar[Checks] = (
        Check.METADATA,
        Check.OWN_RULES,
        Check.METADATA_CHANGE,
        Check.CHANGE,
    )


class WithoutMetadata(OwnRules):
    """A kind that does not look at its metadata: only what holds for all is asked of it."""

    checks_of_create: ClassVar[Checks] = (Check.OWN_RULES,)
    checks_of_update: ClassVar[Checks] = (Check.CHANGE,)
