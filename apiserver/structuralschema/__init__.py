"""Derives from a CustomResourceDefinition's structural schema all that follows from it.

A pure library. `SchemaFeatures` says what depends on the version; `Structural.of(props, features)` makes the
tree of one version's `schema.openAPIV3Schema` once per definition (None keeps everything). Functions walk it:

    validate_definition(crd, old, features) -> [FieldError]  spec.versions[*].schema; old is None on create
    warnings(crd, features) -> [str]                       of a definition that is written
    prune(obj, structural) -> [path]                       in place: unknown fields, nulls without default
    coerce(obj, structural, drop_invalid) -> [path]        in place: embedded resources' metadata
    default(obj, structural)                               in place
    validate_object(obj, structural, before, scale)        values, embedded metadata, list types, rules
    validate_update(obj, old, structural, before, scale)   the same with transition rules and ratcheting
    validate_status_update(…)                              the same for the status subresource
    to_schema(structural, metadata) -> Schema              the bridge to decoding and server-side apply
    openapi(props, v2=bool) -> dict                        what is published

Source: apiextensions-apiserver pkg/apiserver/{schema,validation}, kube-openapi pkg/validation, 1.36.
"""

from kubeskew.apiserver.structuralschema.conversion import openapi, to_schema
from kubeskew.apiserver.structuralschema.defaults import default
from kubeskew.apiserver.structuralschema.definitions import has_defaults, validate_definition, warnings
from kubeskew.apiserver.structuralschema.model import Structural
from kubeskew.apiserver.structuralschema.objects import (
    CoercionError,
    coerce,
    validate_object,
    validate_status_update,
    validate_update,
)
from kubeskew.apiserver.structuralschema.pruning import prune

__all__ = [
    "CoercionError",
    "Structural",
    "coerce",
    "default",
    "has_defaults",
    "openapi",
    "prune",
    "to_schema",
    "validate_definition",
    "validate_object",
    "validate_status_update",
    "validate_update",
    "warnings",
]
