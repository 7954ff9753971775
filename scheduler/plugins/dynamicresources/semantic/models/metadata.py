"""The metadata model: what a resource is, as versions, labels and values that a CEL selector looks at.

Source: KEP-4381 as drafted.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.cel.errors import CompileError, EvaluationError
from kubeskew.apimachinery.cel.program import Program
from kubeskew.apimachinery.cel.semantic_metadata import compile_selector, metadata_matches
from kubeskew.scheduler.plugins.dynamicresources.semantic.models.model import SemanticError


@dataclass(frozen=True, slots=True)
class Selector:
    """The expression of a parameter, compiled."""

    program: Program

    def match(self, attribute: Mapping[str, Any], taken: Hashable) -> bool:
        try:
            return metadata_matches(self.program, attribute)
        except EvaluationError as error:
            raise SemanticError(f"evaluate selector: {error}") from error

    def allocate(self) -> None:
        return None


class MetadataModel:
    """Decides only, so that any number of claims may have the same resource."""

    name = "metadata"
    nothing: Hashable = None

    def attribute(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        return given

    def requirement(self, parameter: Mapping[str, Any]) -> Selector:
        try:
            return Selector(compile_selector(parameter.get("selector") or ""))
        except CompileError as error:
            raise SemanticError(f"compile selector: {error}") from error

    def take(self, taken: Hashable, result: Mapping[str, Any]) -> Hashable:
        return taken

    def free(self, taken: Hashable, result: Mapping[str, Any]) -> Hashable:
        return taken
