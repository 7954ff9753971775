"""Reads and writes continue tokens: the position in a list, and the revision at which it was begun.

Source: k8s.io/apiserver/pkg/storage/continue.go and storage/errors.go, 1.36.
"""

import posixpath
from typing import NamedTuple

import orjson

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.golang import decode_errors, json_syntax
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apimachinery.security import web_tokens
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.watch_cache_features import Source

_VERSION = "meta.k8s.io/v1"
_TEXT = Field(Schema(Kind.STRING))
_NUMBER = Field(Schema(Kind.INTEGER, format="int64"))
_TOKEN = Schema(Kind.OBJECT, name="storage.continueToken", fields={"v": _TEXT, "rv": _NUMBER, "start": _TEXT})
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


class Position(NamedTuple):
    """`after` is the last key already listed, `start` the same as the token has it; `revision` -1 goes on
    with what is there now.
    """

    revision: int
    after: Key
    start: str


def token(page_revision: int, last: Key, namespace: str | None, source: Source) -> str:
    """A client goes on after `last`; the token's start is relative to the namespace listed.

    One of the watch cache begins with a slash, for its prefix ends without one (cacher.go, GetList).
    """
    path = last.name if namespace or not last.namespace else f"{last.namespace}/{last.name}"
    return _encoded(page_revision, f"/{path}\0" if source is Source.CACHE else f"{path}\0")


def inconsistent_token(where: Position) -> str:
    """A client goes on at the same place with what is there now."""
    return _encoded(-1, where.start)


def _encoded(revision: int, start: str) -> str:
    return web_tokens.encode(orjson.dumps({"v": _VERSION, "rv": revision, "start": start}))


def position(text: str, resource: Resource, namespace: str | None) -> Position:
    """Reads the position at which a token goes on; raises 400.

    A token of one namespace that was chosen by a selector is read without it: selectors choose none where a
    list is continued, so that the list begins again with the namespace that is called as the object was
    (storage/selection_predicate.go, MatchesSingleNamespace).
    """
    try:
        revision, start = _decoded(text)
    except ValueError as error:
        why = f"invalid continue token: continue key is not valid: {error}"
        raise errors.bad_request(why) from None
    start = start.removeprefix("/")
    first, slash, second = start.rstrip("\0").partition("/")
    stored = resource.storage_resource
    if namespace:
        after = Key(stored, namespace, first)
    elif resource.namespaced:
        after = Key(stored, first, second)
    else:
        after = Key(stored, "", f"{first}{slash}{second}")
    return Position(revision, after, start)


def _decoded(text: str) -> tuple[int, str]:
    """Tokens have a revision and a start; raises ValueError with upstream's text."""
    data = _json(web_tokens.decode(text))
    version, revision, start = data.get("v") or "", data.get("rv") or 0, data.get("start") or ""
    if version != _VERSION:
        raise ValueError(f"server does not recognize this encoded version {version}")
    if not revision:
        raise ValueError(f"incorrect encoded start resourceVersion (version {_VERSION})")
    if not start:
        raise ValueError(f"encoded start key empty (version {_VERSION})")
    key = start if start.startswith("/") else f"/{start}"
    if posixpath.normpath(key) != key:  # the start must not leave the prefix that is listed
        raise ValueError(start)
    return revision, start


def _json(data: bytes) -> Object:
    """Raises ValueError with the text of encoding/json."""
    json_syntax.check(data)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ValueError(str(error)) from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(
            f"json: cannot unmarshal {decode_errors.found(value)} into Go value of type storage.continueToken"
        )
    why = decode_errors.explain(value, _TOKEN)
    if why:
        raise ValueError(why)
    return value


class ExpiredContinueError(StatusError):
    """A token whose revision is gone gets 410, with one that goes on inconsistently."""

    def __init__(self, fresh: str) -> None:
        super().__init__(410, "Expired", _EXPIRED)
        self.fresh = fresh

    def status(self) -> Object:
        return {**super().status(), "metadata": {"continue": self.fresh}}
