"""Prose of a release's documents.

Upstream's is not ours to carry: definitions of shipped releases have none but our own texts of what every
object has, and a preview's definitions have its draft's. An imported release has all of its source tree's, in
a document that is read when the first OpenAPI document is made.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.catalogue.types import OBJECT_META
from kubeskew.apimachinery.versions import Version

_FIELDS = {
    "annotations": "Texts by key that tools keep with the object. Nothing is selected by them.",
    "creationTimestamp": "CreationTimestamp is a timestamp, of the moment when the server made the object.",
    "deletionGracePeriodSeconds": "How many seconds an object that is being deleted has to end by itself.",
    "deletionTimestamp": "When the object may be gone at the latest, once its deletion has been asked for.",
    "finalizers": "Names of those who clean up before the object is removed; each takes its own off.",
    "generateName": "What the server puts before random characters if the object is made without a name.",
    "generation": "A number that grows with each change of what is wanted of the object.",
    "labels": "Short texts by key, by which objects are selected.",
    "managedFields": "Which manager set which fields, in which way and when.",
    "name": "The name, which no other object of the kind has in the namespace. It never changes.",
    "namespace": "The namespace that the object is in. It never changes.",
    "ownerReferences": "The objects that this one belongs to. It is collected once all of them are gone.",
    "resourceVersion": "An opaque text that changes with each write. Watches begin at one.",
    "selfLink": "Not set any more.",
    "uid": "It differs from the uids of all other objects, earlier ones of the same name too.",
}
_OURS = {OBJECT_META: {"doc": "What every object has that is stored.", "fields": _FIELDS}}


class Descriptions(NamedTuple):
    """Texts are empty where nothing is said."""

    definitions: Mapping[str, Mapping[str, Any]]  # {"doc": text, "fields": {field: text}}
    operations: Mapping[str, str]  # by id
    parameters: Mapping[str, str]  # by the name among the shared ones of v2, else by its own
    token: str  # of the bearer token

    def definition(self, name: str) -> str:
        return str(self.definitions.get(name, {}).get("doc", ""))

    def field(self, definition: str, field: str) -> str:
        return str(self.definitions.get(definition, {}).get("fields", {}).get(field, ""))

    def operation(self, operation: str) -> str:
        return self.operations.get(operation, "")

    def parameter(self, name: str, kind: str) -> str:
        """Some texts name the kind of the path."""
        return self.parameters.get(name, "").replace("{kind}", kind)


NOTHING = Descriptions({}, {}, {}, "")


@cache
def descriptions_of(version: Version) -> Descriptions:
    imported = version.document("descriptions.json")
    if imported is not None:
        return Descriptions(**imported)
    return NOTHING._replace(definitions=_OURS | data.described(version))


def text(description: str) -> dict[str, Any]:
    """The member that documents have of it."""
    return {"description": description} if description else {}
