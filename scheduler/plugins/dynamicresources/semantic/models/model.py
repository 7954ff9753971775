"""Says what a semantic model does, and how it is told which one an entry is of.

Source: KEP-4381 as drafted, section Semantic models.
"""

from collections.abc import Hashable, Mapping
from typing import Any, Protocol


class SemanticError(Exception):
    """Parameters or resources cannot be compared as they are; the text is for people."""


class Requirement(Protocol):
    """Says what one parameter asks of the attribute with its name."""

    def match(self, attribute: Any, taken: Hashable) -> bool:
        """Returns whether an attribute, as the model read it, satisfies it beside what is taken of it.

        Raises SemanticError where that cannot be said: then it does not.
        """

    def allocate(self) -> Mapping[str, Any] | None:
        """Returns what a claim takes of the attribute; None if it takes nothing."""


class Model(Protocol):
    """One kind of attributes, parameters and allocation results; all are found under its name.

    What is taken of an attribute is a value that only the model understands.
    """

    name: str
    nothing: Hashable  # what is taken of an attribute that no claim uses

    def attribute(self, given: Mapping[str, Any]) -> Any:
        """Returns the attribute as `match` wants it. Raises SemanticError."""

    def requirement(self, parameter: Mapping[str, Any]) -> Requirement:
        """Returns what a parameter asks for. Raises SemanticError."""

    def take(self, taken: Any, result: Mapping[str, Any]) -> Hashable:
        """Returns what is taken together with one more allocation result."""

    def free(self, taken: Any, result: Mapping[str, Any]) -> Hashable:
        """Returns what is taken without an allocation result."""


def model_of(models: Mapping[str, Model], entry: Mapping[str, Any], what: str) -> Model:
    """Returns the model of an attribute, parameter or result; `what` is how errors name it.

    Raises SemanticError unless it is exactly one: an entry without any was written by somebody who knows
    more models.
    """
    found = [name for name in models if entry.get(name) is not None]
    if not found:
        raise SemanticError(f"{what} is of an unknown semantic model")
    if len(found) > 1:
        raise SemanticError(f"{what} is of several semantic models: {', '.join(found)}")
    return models[found[0]]
