"""The parts of a compiled check: what is asked, what is found, and how functions stop one another.

Source: staging/src/k8s.io/code-generator/cmd/validation-gen/validation.go (emitCallsToValidators,
sortIntoCohorts), 1.36. Up to 1.34 the first function that stops ends the rest at once, which comes to the
same with the tags of those releases.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from kubeskew.apimachinery.field import FieldError


class Level(StrEnum):
    """The stage of a rule; the first three are upstream's."""

    STANDARD = "standard"
    BETA = "beta"
    ALPHA = "alpha"
    ADDED = "added"  # by an imported release: its base release has no such rule


class Operation(NamedTuple):
    """`options` are the names of the gates that the strategy passes on."""

    update: bool
    options: frozenset[str] = frozenset()


class Finding(NamedTuple):
    error: FieldError
    level: Level


# (operation, path, new value, old value) -> findings. A nil pointer is None; so is an old value that there is
# not. Other absent values are Go's zero values.
Check = Callable[[Operation, str, Any, Any], Sequence[Finding]]


class Function(NamedTuple):
    """One call of a validator. One that stops ends its cohort with its findings, silently if `silent`."""

    check: Check
    stops: bool = False
    silent: bool = False
    cohort: str = ""


class Plan:
    """Functions in the order of their calls: those without a cohort first, in each cohort those that stop."""

    def __init__(self, functions: Iterable[Function]) -> None:
        cohorts: dict[str, list[Function]] = {"": []}
        for function in functions:
            cohorts.setdefault(function.cohort, []).append(function)
        self._cohorts = [
            (cohort, [one for one in members if one.stops], [one for one in members if not one.stops])
            for cohort, members in cohorts.items()
            if members
        ]

    def __bool__(self) -> bool:
        return bool(self._cohorts)

    def run(self, operation: Operation, path: str, new: Any, old: Any) -> tuple[list[Finding], bool]:
        """The flag is true if what follows the plan must not be looked at."""
        found: list[Finding] = []
        for cohort, first, others in self._cohorts:
            stopped = False
            for function in first:
                errors = function.check(operation, path, new, old)
                if errors:
                    stopped = True
                    if not function.silent:
                        found += errors
            if not stopped:
                for function in others:
                    found += function.check(operation, path, new, old)
            elif not cohort:
                return found, True
        return found, False

    def check(self, operation: Operation, path: str, new: Any, old: Any) -> Sequence[Finding]:
        return self.run(operation, path, new, old)[0]


def plain(find: Callable[[Operation, str, Any, Any], Iterable[FieldError]]) -> Check:
    """Makes a check of a validator that knows nothing of levels."""

    def check(operation: Operation, path: str, new: Any, old: Any) -> Sequence[Finding]:
        return [Finding(error, Level.STANDARD) for error in find(operation, path, new, old)]

    return check


def at_level(function: Function, level: Level) -> Function:
    """All findings of the function are of that level."""
    inner = function.check

    def check(operation: Operation, path: str, new: Any, old: Any) -> Sequence[Finding]:
        return [Finding(error, level) for error, _ in inner(operation, path, new, old)]

    return function._replace(check=check)
