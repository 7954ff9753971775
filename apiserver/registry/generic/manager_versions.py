"""Converts custom resources to the versions of their managers, where that takes a webhook.

The field manager cannot wait: an object that it lacks ends its work, which begins again when the webhook has
converted it.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeVar

import orjson

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.apiextensions.conversion import webhook_of
from kubeskew.apiserver.registry.codec import Codec

_Made = TypeVar("_Made")
_Key = tuple[str, bytes]

# What the webhook has said during one write, by version and object; None where nobody waits for it.
_answers: ContextVar["dict[_Key, Object | StatusError] | None"] = ContextVar("answers", default=None)


class _LackingError(Exception):
    """The webhook must be asked first."""

    def __init__(self, key: _Key, obj: Object, target: Resource) -> None:
        super().__init__(key)
        self.key = key
        self.obj = obj
        self.target = target


def converted(obj: Object, target: Resource) -> Object | None:
    """`obj` in the version of `target`, None if no webhook is asked; raises StatusError if it failed."""
    answers = _answers.get()
    if answers is None or webhook_of(target) is None:
        return None
    key = target.api_version, orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)
    answer = answers.get(key)
    if answer is None:
        raise _LackingError(key, obj, target)
    if isinstance(answer, StatusError):
        raise answer
    return answer


async def with_webhook_conversions(
    codec: Codec, resource: Resource, work: Callable[[], Awaitable[_Made]]
) -> _Made:
    """Returns the result of `work`, which may need objects `converted`."""
    if not codec.needs_webhook(resource):
        return await work()
    answers: dict[_Key, Object | StatusError] = {}
    token = _answers.set(answers)
    try:
        while True:
            try:
                return await work()
            except _LackingError as lacking:
                answers[lacking.key] = await _answer(codec, lacking)
    finally:
        _answers.reset(token)


async def _answer(codec: Codec, lacking: _LackingError) -> Object | StatusError:
    try:
        return await codec.by_webhook(lacking.target, lacking.obj)
    except StatusError as error:
        return error
