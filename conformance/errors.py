"""Errors of scenarios and of their steps."""


class ScenarioError(Exception):
    """The scenario file is wrong: the text has the place, the mistake, and what would be right.

    `key` is the key that is wrong in the mapping at the place.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


class UnfitValueError(ScenarioError):
    """An expression cannot take the value that it is evaluated for: it is not (yet) as assumed."""


class UnknownFieldError(ScenarioError):
    """An expression names a field that a binding does not have."""


class UnboundError(ScenarioError):
    """An expression uses a name that nothing is bound to."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class StepError(Exception):
    """A step did not hold. `expected` and `found` stand in the report."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}; found {found}")
        self.expected = expected
        self.found = found


class ImpossibleError(Exception):
    """An operation cannot be done to a real program; the text is the reason.

    It is not run then, and neither is what needs it: that shows nothing of the feature.
    """


class UnservedKindError(StepError):
    """The API server does not serve a kind (yet): its definition may be on the way."""
