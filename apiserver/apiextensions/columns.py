"""Makes the columns that a definition gives the tables of its objects.

Source: apiextensions-apiserver pkg/registry/customresource/tableconvertor/tableconvertor.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Column

AGE: Object = {
    "name": "Age",
    "type": "date",
    "description": (
        "CreationTimestamp is a timestamp representing the server time when this object was created. It is "
        "not guaranteed to be set in happens-before order across separate operations. Clients may not set "
        "this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. "
        "Null for lists. More info: "
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
    ),
    "jsonPath": ".metadata.creationTimestamp",
}
_SHOWN_BY_PATH = "Custom resource definition column (in JSONPath format): "


def column_of(given: Object) -> Column:
    """Returns a definition's `additionalPrinterColumns[*]` as a Table has it."""
    description = given.get("description") or f"{_SHOWN_BY_PATH}{given['jsonPath']}"
    return Column(
        given["name"], given["type"], given.get("format") or "", description, given.get("priority") or 0
    )
