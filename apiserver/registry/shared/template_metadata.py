"""Holds the rules of the metadata in a template of a claim: labels and annotations, nothing else.

Source: pkg/apis/core/validation/validation.go (ValidateTemplateObjectMeta), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, child, forbidden
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import object_meta

# What it may not have, in the order of the Go type.
_SPELLED = {"uid": "uID"}  # upstream lowers the first letter of the Go field's name
_OTHERS = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip


def template_metadata_errors(metadata: Object, path: str) -> Iterator[FieldError]:
    yield from object_meta.validate_annotations(metadata.get("annotations") or {}, child(path, "annotations"))
    yield from object_meta.validate_labels(metadata.get("labels") or {}, child(path, "labels"))
    for name in _OTHERS:
        if metadata.get(name):
            yield forbidden(child(path, _SPELLED.get(name, name)), "cannot be set")
