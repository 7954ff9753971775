"""The semantic models: how parameters match attributes, and what an allocation takes. The counter model has
an amount, of which each claim takes a part; the metadata model has versions, labels and values that a CEL
selector looks at.

Sources: KEP-4381 as drafted, section Semantic models; KEP-4381 as drafted.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from kubeskew.apimachinery.cel.errors import CompileError, EvaluationError
from kubeskew.apimachinery.cel.program import Program
from kubeskew.apimachinery.cel.semantic_metadata import compile_selector, metadata_matches

# Expressions whose answers about an attribute are remembered; pods mostly come with few different ones.
_MAX_ANSWERS = 64


class SemanticError(Exception):
    """Parameters or resources cannot be compared as they are; the text is for people."""


class Requirement(Protocol):
    """The requirement of one parameter for the attribute with its name."""

    def match(self, attribute: Any, taken: Hashable) -> bool:
        """Compares the attribute, as the model read it, with the requirement and what is taken of it already.

        Raises SemanticError if they cannot be compared, which counts as no match.
        """

    def allocate(self) -> Mapping[str, Any] | None:
        """None if a claim takes nothing of the attribute."""


class Model(Protocol):
    """One kind of attributes, parameters and allocation results; all are found under its name.

    What is taken of an attribute is a value that only the model understands.
    """

    name: str
    nothing: Hashable  # what is taken of an attribute that no claim uses

    def attribute(self, given: Mapping[str, Any]) -> Any:
        """Converts the attribute to the form that `match` expects. Raises SemanticError."""

    def requirement(self, parameter: Mapping[str, Any]) -> Requirement:
        """Raises SemanticError."""

    def take(self, taken: Any, result: Mapping[str, Any]) -> Hashable: ...

    def free(self, taken: Any, result: Mapping[str, Any]) -> Hashable: ...


def model_of(models: Mapping[str, Model], entry: Mapping[str, Any], what: str) -> Model:
    """`what` names the attribute, parameter or result in errors.

    Raises SemanticError unless it has exactly one model: an entry without any was written for later
    models.
    """
    found = [name for name in models if entry.get(name) is not None]
    if not found:
        raise SemanticError(f"{what} is of an unknown semantic model")
    if len(found) > 1:
        raise SemanticError(f"{what} is of several semantic models: {', '.join(found)}")
    return models[found[0]]


@dataclass(frozen=True, slots=True)
class Amount:
    required: int

    def match(self, attribute: int, taken: Hashable) -> bool:
        """Enough must be left; less than nothing is left after the driver reduced the amount."""
        return isinstance(taken, int) and attribute - taken >= self.required

    def allocate(self) -> Mapping[str, Any]:
        return {"count": self.required}


class CounterModel:
    """The sum of all claims' parts is taken."""

    name = "counter"
    nothing: Hashable = 0

    def attribute(self, given: Mapping[str, Any]) -> int:
        return int(given.get("count") or 0)

    def requirement(self, parameter: Mapping[str, Any]) -> Amount:
        return Amount(int(parameter.get("required") or 0))

    def take(self, taken: int, result: Mapping[str, Any]) -> int:
        return taken + int(result.get("count") or 0)

    def free(self, taken: int, result: Mapping[str, Any]) -> int:
        return taken - int(result.get("count") or 0)


@dataclass(frozen=True, slots=True)
class Metadata:
    """Keeps the results of selectors, since an attribute never changes."""

    given: Mapping[str, Any]
    answers: dict[str, bool | SemanticError] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Selector:
    """The expression of a parameter, compiled."""

    expression: str
    program: Program

    def match(self, attribute: Metadata, taken: Hashable) -> bool:
        answer = attribute.answers.get(self.expression)
        if answer is None:
            if len(attribute.answers) >= _MAX_ANSWERS:
                attribute.answers.clear()
            answer = attribute.answers[self.expression] = self._evaluate(attribute)
        if isinstance(answer, SemanticError):
            raise SemanticError(str(answer))
        return answer

    def _evaluate(self, attribute: Metadata) -> bool | SemanticError:
        try:
            return metadata_matches(self.program, attribute.given)
        except EvaluationError as error:
            return SemanticError(f"evaluate selector: {error}")

    def allocate(self) -> None:
        return None


class MetadataModel:
    """Decides only, so that any number of claims may have the same resource."""

    name = "metadata"
    nothing: Hashable = None

    def attribute(self, given: Mapping[str, Any]) -> Metadata:
        return Metadata(given)

    def requirement(self, parameter: Mapping[str, Any]) -> Selector:
        expression = parameter.get("selector") or ""
        try:
            return Selector(expression, compile_selector(expression))
        except CompileError as error:
            raise SemanticError(f"compile selector: {error}") from error

    def take(self, taken: Hashable, result: Mapping[str, Any]) -> Hashable:
        return taken

    def free(self, taken: Hashable, result: Mapping[str, Any]) -> Hashable:
        return taken


MODELS: Mapping[str, Model] = MappingProxyType(
    {model.name: model for model in (CounterModel(), MetadataModel())}
)
