"""The metadata model: what a resource is, as versions, labels and values that a CEL selector looks at.

Source: KEP-4381 as drafted.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.cel.errors import CompileError, EvaluationError
from kubeskew.apimachinery.cel.program import Program
from kubeskew.apimachinery.cel.semantic_metadata import compile_selector, metadata_matches
from kubeskew.scheduler.plugins.dynamicresources.semantic.models.model import SemanticError

# Expressions whose answers about an attribute are remembered; pods mostly come with few different ones.
_MAX_ANSWERS = 64


@dataclass(frozen=True, slots=True)
class Metadata:
    """An attribute, with what selectors said of it: it never changes."""

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
