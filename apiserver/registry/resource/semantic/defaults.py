"""Sets the defaults of the kinds of semantic parameters: KEP-4381 as drafted."""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import DefaultingContext, each, fill


def node_slice(obj: Object, _: DefaultingContext) -> None:
    """Gives each resource the identifier that the draft's examples call its name."""
    for resource in each(obj, "resources"):
        if resource.get("name"):
            fill(resource, id=resource["name"])
