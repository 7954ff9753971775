"""Continue tokens: where a list went on, and at which revision it was begun.

Source: k8s.io/apiserver/pkg/storage/continue.go and storage/errors.go, 1.36.
"""

import base64
import binascii
from typing import NamedTuple

import orjson

from apimachinery import errors
from apimachinery.errors import Object, StatusError
from apiserver.storage.interfaces import Key

_VERSION = "meta.k8s.io/v1"
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


class Position(NamedTuple):
    """`after` is the last key already listed; `revision` -1 goes on with what is there now."""

    revision: int
    after: Key


def token(page_revision: int, last: Key, namespace: str | None) -> str:
    """The token that goes on after `last`; its start is relative to the namespace listed."""
    start = last.name if namespace or not last.namespace else f"{last.namespace}/{last.name}"
    data = {"v": _VERSION, "rv": page_revision, "start": f"{start}\0"}
    return base64.urlsafe_b64encode(orjson.dumps(data)).decode().rstrip("=")


def position(text: str, resource: str, namespace: str | None) -> Position:
    """Where a token goes on; raises 400."""
    try:
        data = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        version, revision, start = data["v"], data["rv"], data["start"]
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise errors.bad_request(f"continue key is not valid: {error}") from None
    if version != _VERSION:
        raise errors.bad_request(
            f'continue key is not valid: server does not recognize this encoded version "{version}"'
        )
    if not isinstance(revision, int) or not isinstance(start, str) or not start:
        raise errors.bad_request("continue key is not valid: incorrect encoded start resourceVersion")
    first, slash, second = start.rstrip("\0").partition("/")
    if namespace:
        return Position(revision, Key(resource, namespace, first))
    return Position(revision, Key(resource, first, second) if slash else Key(resource, "", first))


class ExpiredContinueError(StatusError):
    """410 for a token whose revision is gone, with one that goes on inconsistently."""

    def __init__(self, fresh: str) -> None:
        super().__init__(410, "Expired", _EXPIRED)
        self.fresh = fresh

    def status(self) -> Object:
        return {**super().status(), "metadata": {"continue": self.fresh}}
