"""Describes the metadata of objects, in our own words: `kubectl explain` shows it of every kind."""

from kubeskew.apimachinery.catalogue.types import OBJECT_META

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
    "uid": "What tells the object from all others, earlier ones of its name too.",
}
# Text by definition or `definition.field`.
DESCRIPTIONS = {
    OBJECT_META: "What every object has that is stored.",
    **{f"{OBJECT_META}.{field}": text for field, text in _FIELDS.items()},
}
