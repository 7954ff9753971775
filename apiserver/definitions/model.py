"""A custom resource as a value: what serving it takes beside what every resource has."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apimachinery.resources import Resource

if TYPE_CHECKING:
    from apiserver.definitions.resource import Definition
    from apiserver.registry.strategy import ScalePaths
    from apiserver.tables.json_path import JSONPath


@dataclass(frozen=True, slots=True, eq=False)
class CustomResource(Resource):
    """A version of a custom resource, with what serving it takes beside its schema."""

    definition: "Definition | None" = None
    paths: "tuple[JSONPath, ...]" = ()  # of the columns
    selectable: tuple[str, ...] = ()  # field labels
    scale: "ScalePaths | None" = None
    warning: str = ""  # of a deprecated version
    list_name: str = ""

    @property
    def list_kind(self) -> str:
        return self.list_name
