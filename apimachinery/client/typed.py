"""Decodes objects as the typed client of a release does: without fields that its types do not have.

So an older component that puts an object back takes a new field away, even through a new server
(kubernetes/kubernetes#46073). Kinds that the release does not have stay as they are: custom resources are
decoded without types.
"""

from collections.abc import Callable
from functools import cache

from kubeskew.apimachinery.catalogue.table import catalogue_for
from kubeskew.apimachinery.golang.known_fields import known_fields
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Schema
from kubeskew.apimachinery.versions import Version

Decode = Callable[[Object], Object]


def as_is(obj: Object) -> Object:
    """Returns the object with all that the server has sent, as dynamic clients do."""
    return obj


@cache
def decoder(version: Version) -> Decode:
    """Returns what decodes objects by the types of a release, made once per process."""
    catalogue = catalogue_for(version)
    schemas: dict[tuple[str, str], Schema | None] = {}

    def decode(obj: Object) -> Object:
        kind = obj.get("apiVersion") or "", obj.get("kind") or ""
        if kind not in schemas:
            group, _, version = kind[0].rpartition("/")
            schemas[kind] = catalogue.kind_schema(group, version, kind[1])
        schema = schemas[kind]
        if schema is None:
            return obj
        known: Object = known_fields(obj, schema)
        return known

    return decode
