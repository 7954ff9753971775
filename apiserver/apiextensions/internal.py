"""Lifts what all versions of a definition have in common above them, as upstream's internal type does.

Field paths and printed values of its errors are those of this form.
Source: apiextensions-apiserver pkg/apis/apiextensions/v1/conversion.go and types.go, 1.36.
"""

from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.structuralschema import go_struct

_LIFTED = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
_NAMES = {"schema": "validation"}


class Place(NamedTuple):
    """A part of a definition (`version` None: above the versions), and the path it is told by."""

    path: str
    version: Object | None
    parts: Object  # the part's own fields: schema, subresources, additionalPrinterColumns, …


def places(spec: Object) -> list[Place]:
    """Returns the places of schemas, subresources and columns: in each version, and above if alike in all."""
    versions = spec.get("versions") or []
    lifted = {name for name in _LIFTED if versions and _alike(versions, name)}
    found = []
    for position, version in enumerate(versions):
        own = {name: version[name] for name in _LIFTED if name not in lifted and version.get(name)}
        found.append(Place(f"spec.versions[{position}]", version, own))
    above = {name: versions[0][name] for name in _LIFTED if name in lifted and versions[0].get(name)}
    return [*found, Place("spec", None, above)]


def _alike(versions: list[Object], name: str) -> bool:
    return all((version.get(name) or None) == (versions[0].get(name) or None) for version in versions)


def shown(spec: Object) -> Any:
    """`spec.versions` as an error prints it."""
    if spec.get("versions") is None:
        return None
    return [_version(place) for place in places(spec) if place.version is not None]


def _version(place: Place) -> Object:
    version, parts = place.version or {}, place.parts
    return {
        "Name": version.get("name") or "",
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": _schema(parts.get("schema")),
        "Subresources": _subresources(parts.get("subresources")),
        "AdditionalPrinterColumns": [
            _column(column) for column in parts.get("additionalPrinterColumns") or ()
        ]
        or None,
        "SelectableFields": [{"JSONPath": field.get("jsonPath") or ""} for field in parts["selectableFields"]]
        if "selectableFields" in parts
        else None,
    }


def _schema(given: Object | None) -> Object | None:
    if given is None:
        return None
    schema = given.get("openAPIV3Schema")
    return {"OpenAPIV3Schema": None if schema is None else go_struct.schema(schema)}


def _subresources(given: Object | None) -> Object | None:
    if given is None:
        return None
    scale = given.get("scale")
    return {
        "Status": {} if given.get("status") is not None else None,
        "Scale": None
        if scale is None
        else {
            "SpecReplicasPath": scale.get("specReplicasPath") or "",
            "StatusReplicasPath": scale.get("statusReplicasPath") or "",
            "LabelSelectorPath": scale.get("labelSelectorPath"),
        },
    }


def _column(given: Object) -> Object:
    return {
        "Name": given.get("name") or "",
        "Type": given.get("type") or "",
        "Format": given.get("format") or "",
        "Description": given.get("description") or "",
        "Priority": given.get("priority") or 0,
        "JSONPath": given.get("jsonPath") or "",
    }
