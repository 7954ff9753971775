"""Names the checks of a write, which each strategy puts in order for itself.

Upstream's functions call one another: ValidateFooUpdate often begins with ValidateFoo, and a strategy's
ValidateUpdate may call both. Each call adds its errors, so one error is reported as often as its check is
called, and the causes of a 422 say so. A strategy here lists its checks as upstream calls them, the same one
several times where upstream does: `create_checks` and `update_checks` (strategy.py).
"""

from enum import StrEnum, auto


class Check(StrEnum):
    """A part of what is checked: METADATA, STRUCTURE and OWN_RULES of an object, the others of a change."""

    METADATA = auto()  # the metadata as those of a new object (ValidateObjectMeta)
    METADATA_CHANGE = auto()  # what of the metadata may change (ValidateObjectMetaUpdate)
    STRUCTURE = auto()  # what follows from the schema: required fields, enumerations, list types
    OWN_RULES = auto()  # the kind's rules for a new object: `validate`, in an update `validate_as_new`
    CHANGE = auto()  # the kind's rules for a change: `validate_update`


Checks = tuple[Check, ...]
CREATE: Checks = (Check.METADATA, Check.STRUCTURE, Check.OWN_RULES)
UPDATE: Checks = (Check.METADATA_CHANGE, Check.STRUCTURE, Check.CHANGE)
UPDATE_AS_NEW: Checks = (Check.METADATA_CHANGE, Check.STRUCTURE, Check.OWN_RULES, Check.CHANGE)
AS_NEW_AND_AS_CHANGE: Checks = (Check.METADATA, Check.OWN_RULES, Check.METADATA_CHANGE, Check.CHANGE)
# In classic DRA ValidateClaimUpdate and its like check the object as a new one; most strategies did so, too.
ONCE_AS_NEW: Checks = (Check.METADATA_CHANGE, Check.METADATA, Check.OWN_RULES, Check.CHANGE)
TWICE_AS_NEW: Checks = (*AS_NEW_AND_AS_CHANGE, Check.METADATA, Check.OWN_RULES)


def once(checks: Checks) -> Checks:
    """Returns the checks of a kind's changes, each once."""
    return tuple(dict.fromkeys(checks))
