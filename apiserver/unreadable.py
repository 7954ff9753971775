"""Errors about stored objects that cannot be read, in the words of upstream's decoders and store.

Without the gate AllowUnsafeMalformedObjectDeletion an answer is the decoder's error, with it the store's,
which names the key and may be ignored by a deletion. Damaged bytes are as upstream's encrypted ones that do
not decrypt ("not transformable"); bytes that are no object of a known kind are "not decodable".

Source: k8s.io/apiserver/pkg/storage/errors.go and storage/etcd3/corrupt_obj_deleter.go, 1.36 and 1.37.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import orjson

from kubeskew.apimachinery.errors import GroupResource, StatusError, internal
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.storage.records import DAMAGED, Entry, Key

if TYPE_CHECKING:
    from kubeskew.apiserver.features import RequestFeatures

log = logging.getLogger(__name__)

UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"  # the option of a deletion
READ_ERROR = "StorageReadError"  # the reason: metav1.StatusReasonStoreReadError
CAUSES_MAX = 100  # of a list
_ALTERED = "the stored data is not what was written"
_TOO_MANY = "too many errors, the list is truncated"


class UnreadableError(StatusError):
    """The object cannot be read: 500, with the decoder's text."""

    def __init__(self, text: str, *, altered: bool = False) -> None:
        wrapped = f"Internal error occurred: {text}" if altered else text
        super().__init__(500, "InternalError" if altered else "", wrapped)
        if altered:
            self.details = {"causes": [{"message": text}]}
        self.text = text
        self.altered = altered

    def at(self, revision: int) -> str:
        """Upstream's store itself has these words."""
        what = "data from the storage is not transformable" if self.altered else "object not decodable"
        return f"{what} revision={revision}: {self.text}"


def decoded(value: bytes) -> Object:
    """Raises UnreadableError."""
    if value == DAMAGED:
        raise UnreadableError(_ALTERED, altered=True)
    try:
        obj = orjson.loads(value)
    except orjson.JSONDecodeError:
        raise UnreadableError(_refusal(value)) from None
    if not isinstance(obj, dict):
        raise UnreadableError(_refusal(value))
    if not isinstance(obj.get("kind"), str) or not isinstance(obj.get("apiVersion"), str):
        missing = "apiVersion" if isinstance(obj.get("kind"), str) else "Kind"
        raise UnreadableError(f"Object '{missing}' is missing in '{value.decode()}'")
    if not isinstance(obj.get("metadata"), dict) or not isinstance(obj["metadata"].get("name"), str):
        raise UnreadableError(f"the metadata is missing in '{value.decode()}'")  # not written by servers
    return obj


def stored_object(value: bytes, revision: int) -> Object:
    """Sets resourceVersion. Raises UnreadableError."""
    obj = decoded(value)
    obj["metadata"]["resourceVersion"] = str(revision)
    return obj


def _refusal(value: bytes) -> str:
    """The words are those of Go's decoder, whose import takes longer than readers of sound objects need."""
    from kubeskew.apiserver.decoding import decoder

    try:
        parsed = decoder.parse(value, "application/json").value
    except ValueError as error:
        return decoder.unreadable(error, "application/json")
    return decoder.no_object(parsed) if not isinstance(parsed, dict) else "the JSON is not valid"


def object_of(entry: Entry) -> Object:
    """Sets resourceVersion. Raises StatusError (500) with the key.

    For objects that are read on the way to something else: other readers know the key.
    """
    try:
        return stored_object(entry.value, entry.revision)
    except UnreadableError as error:
        key = entry.key
        raise internal(f"{key.resource} {key.path} cannot be read: {error.at(entry.revision)}") from None


def known_object(entry: Entry) -> Object | None:
    """Logs an object that cannot be read, and returns None."""
    try:
        return object_of(entry)
    except StatusError as error:
        log.warning("left out: %s", error.message)
        return None


def corrupt(path: str, error: UnreadableError, revision: int) -> str:
    return (
        f"StorageError: corrupt object, Code: 7, Key: {path}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: {error.at(revision)}"
    )


def failed_list(
    resource: GroupResource, errors: Iterable[tuple[str, UnreadableError, int]], features: "RequestFeatures"
) -> StatusError:
    """Answers a list of which some objects cannot be read; `errors` are (path, error, revision) of each."""
    unreadable = list(errors)
    causes: list[Object] = [
        {
            "reason": "UnexpectedServerResponse",
            "message": corrupt(path, error, revision),
            "field": path,
        }
        for path, error, revision in unreadable[:CAUSES_MAX]
    ]
    details: Object = {"name": "list", "group": resource.group, "kind": resource.resource}
    text = f"failed to read one or more {resource} from the storage"
    if features.names_first_unreadable:
        more = f" (and {len(unreadable) - 1} more)" if len(unreadable) > 1 else ""
        text += f": {causes[0]['message']}{more}"
    if len(unreadable) > CAUSES_MAX:
        causes.append({"reason": "FieldValueTooMany", "message": _TOO_MANY})
    details = {name: value for name, value in details.items() if value} | {"causes": causes}
    return StatusError(500, READ_ERROR, text, details)


def deleted_unread(error: UnreadableError, revision: int) -> StatusError:
    """A watch ends with it at the deletion of an object that cannot be read."""
    text = f"saw a DELETED event, but object data is corrupt - {error.at(revision)}"
    return StatusError(500, READ_ERROR, text)


def stored_path(resource: GroupResource, key: Key, *, custom: bool) -> str:
    """Builds the key in upstream's store, without the other names that some kinds have there."""
    place = resource.resource
    if custom:
        place = f"{resource.group}/{place}"
    return "/".join(part for part in ("/registry", place, key.namespace, key.name) if part)
