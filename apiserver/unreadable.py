"""Words the errors about stored objects that cannot be read, as upstream's decoders and its store do.

Without the gate AllowUnsafeMalformedObjectDeletion an answer is the decoder's error, with it the store's,
which names the key and may be ignored by a deletion. Damaged bytes are as upstream's encrypted ones that do
not decrypt ("not transformable"); what is no object of a known kind is "not decodable".

Source: k8s.io/apiserver/pkg/storage/errors.go and storage/etcd3/corrupt_obj_deleter.go, 1.36 and 1.37.
"""

import logging
from collections.abc import Iterable

import orjson

from kubeskew.apimachinery.errors import GroupResource, StatusError, internal
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.decoding import decoder
from kubeskew.apiserver.features import RequestFeatures
from kubeskew.apiserver.storage.records import DAMAGED, Entry, Key

log = logging.getLogger(__name__)

UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"  # the option of a deletion
READ_ERROR = "StorageReadError"  # the reason: metav1.StatusReasonStoreReadError
CAUSES_MAX = 100  # of a list
_ALTERED = "the stored data is not what was written"
_TOO_MANY = "too many errors, the list is truncated"


class UnreadableError(StatusError):
    """A stored object that cannot be read: 500, with the text of what refused it."""

    def __init__(self, text: str, *, altered: bool = False) -> None:
        wrapped = f"Internal error occurred: {text}" if altered else text
        super().__init__(500, "InternalError" if altered else "", wrapped)
        if altered:
            self.details = {"causes": [{"message": text}]}
        self.text = text
        self.altered = altered

    def at(self, revision: int) -> str:
        """Returns the error as the store tells it."""
        what = "data from the storage is not transformable" if self.altered else "object not decodable"
        return f"{what} revision={revision}: {self.text}"


def decoded(value: bytes) -> Object:
    """Returns the object that stored bytes hold. Raises UnreadableError."""
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
        raise UnreadableError(f"the metadata is missing in '{value.decode()}'")  # of nobody's making
    return obj


def stored_object(value: bytes, revision: int) -> Object:
    """Returns the object that stored bytes hold, with its resourceVersion. Raises UnreadableError."""
    obj = decoded(value)
    obj["metadata"]["resourceVersion"] = str(revision)
    return obj


def _refusal(value: bytes) -> str:
    """Returns the words of Go's decoder."""
    try:
        parsed = decoder.parse(value, "application/json").value
    except ValueError as error:
        return decoder.unreadable(error, "application/json")
    return decoder.no_object(parsed) if not isinstance(parsed, dict) else "the JSON is not valid"


def object_of(entry: Entry) -> Object:
    """Returns the object of an entry as it is stored, with its resourceVersion. Raises UnreadableError with
    its key.

    For what is read on the way to something else: its own readers know the key.
    """
    try:
        return stored_object(entry.value, entry.revision)
    except UnreadableError as error:
        key = entry.key
        raise internal(f"{key.resource} {key.path} cannot be read: {error.at(entry.revision)}") from None


def known_object(entry: Entry) -> Object | None:
    """Returns the entry's object as `object_of`, or logs that it cannot be read and returns None."""
    try:
        return object_of(entry)
    except StatusError as error:
        log.warning("left out: %s", error.message)
        return None


def corrupt(path: str, error: UnreadableError, revision: int) -> str:
    """Returns the text of the store's own error."""
    return (
        f"StorageError: corrupt object, Code: 7, Key: {path}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: {error.at(revision)}"
    )


def failed_list(
    resource: GroupResource, errors: Iterable[tuple[str, UnreadableError, int]], features: RequestFeatures
) -> StatusError:
    """Returns the answer to a list of which some objects cannot be read: (path, error, revision) of each."""
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
    if features.tells_first_unreadable:
        more = f" (and {len(unreadable) - 1} more)" if len(unreadable) > 1 else ""
        text += f": {causes[0]['message']}{more}"
    if len(unreadable) > CAUSES_MAX:
        causes.append({"reason": "FieldValueTooMany", "message": _TOO_MANY})
    details = {name: value for name, value in details.items() if value} | {"causes": causes}
    return StatusError(500, READ_ERROR, text, details)


def deleted_unread(error: UnreadableError, revision: int) -> StatusError:
    """Returns the error of a watch that would tell of the deletion of an object that cannot be read."""
    text = f"saw a DELETED event, but object data is corrupt - {error.at(revision)}"
    return StatusError(500, READ_ERROR, text)


def stored_path(resource: GroupResource, key: Key, *, custom: bool) -> str:
    """Returns the key in upstream's store; some kinds have names of their own there, which are
    left out here.
    """
    place = resource.resource
    if custom:
        place = f"{resource.group}/{place}"
    return "/".join(part for part in ("/registry", place, key.namespace, key.name) if part)
