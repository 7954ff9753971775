"""Makes resources whose objects are described by a structural schema."""

from dataclasses import dataclass

from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.structuralschema.model import Structural


@dataclass(frozen=True, slots=True, eq=False)
class StructuralResource(Resource):
    """Holds what the objects of a custom resource may be, beside what every resource has."""

    structural: Structural | None = None


def structural_of(resource: object) -> Structural | None:
    """Returns the structural schema of a custom resource, None for what is built in."""
    return resource.structural if isinstance(resource, StructuralResource) else None
