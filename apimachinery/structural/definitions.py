from apimachinery.errors import Object
from apimachinery.field import FieldError
from apimachinery.structural.rules import NEWEST, Rules


def validate_definition(crd: Object, old: Object | None = None, rules: Rules = NEWEST) -> list[FieldError]:
    """Faults of everything that concerns schemas, at `spec.versions[i].schema.openAPIV3Schema`."""
    return []


def warnings(crd: Object, rules: Rules = NEWEST) -> list[str]:
    """The warnings that creating or changing the definition gives for its schemas."""
    return []
