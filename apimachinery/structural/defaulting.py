from apimachinery.errors import Object
from apimachinery.structural.model import Structural


def default(obj: Object, structural: Structural) -> None:
    """Drop nulls that have a default and fill defaults in, in place."""
