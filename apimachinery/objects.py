"""Defines `Object`, the JSON of an API object: every module that handles objects shares this name.

Source of what reads its metadata: k8s.io/apimachinery pkg/apis/meta/v1/controller_ref.go, 1.36.
"""

from collections.abc import Mapping
from typing import Any

Key = tuple[str, str]  # namespace, empty for cluster-scoped objects, and name
Object = dict[str, Any]
ObjectView = Mapping[str, Any]  # an object, or a part of one, that is only read


def is_resync(old: Object, new: Object) -> bool:
    """True for an update without a write: the object was listed again. Handlers leave these out where
    upstream's compare resource versions.
    """
    return bool(old["metadata"].get("resourceVersion") == new["metadata"].get("resourceVersion"))


def object_key(obj: ObjectView) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def controller_of(obj: ObjectView) -> Object | None:
    """The owner reference with `controller: true`, None if there is none."""
    references = obj["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def is_controlled_by(obj: ObjectView, owner: ObjectView) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference.get("uid") == owner["metadata"].get("uid")
