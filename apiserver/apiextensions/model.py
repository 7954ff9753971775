"""Holds what serving a custom resource takes beside what every resource has."""

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from kubeskew.apiserver.structuralschema.resources import StructuralResource

if TYPE_CHECKING:
    from kubeskew.apiserver.apiextensions.json_path import JSONPath
    from kubeskew.apiserver.apiextensions.resource import Definition
    from kubeskew.apiserver.apply.managedfields.scaling import ScalePaths

_numbers = count(1)


@dataclass(frozen=True, slots=True, eq=False)
class CustomResource(StructuralResource):
    """A version of a custom resource, with what serving it takes beside its schema."""

    definition: "Definition | None" = None
    paths: "tuple[JSONPath, ...]" = ()  # of the columns
    scale: "ScalePaths | None" = None
    warning: str = ""  # of a deprecated version
    list_name: str = ""
    number: int = field(default_factory=lambda: next(_numbers))  # what caches know it by: it may be large

    @property
    def list_kind(self) -> str:
        return self.list_name
