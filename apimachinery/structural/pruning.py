from apimachinery.errors import Object
from apimachinery.structural.model import Structural


def prune(obj: Object, structural: Structural, root: bool = True) -> list[str]:
    """Drop fields that the schema does not have, in place; their paths, `spec.a[0].b`, sorted."""
    return []
