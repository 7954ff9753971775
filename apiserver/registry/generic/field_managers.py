"""The field manager of a resource works over the schemas of all its versions.

Custom resources may need a webhook to be converted to the versions of their managers. The field manager
cannot wait: an object that it lacks ends its work, which begins again when the webhook has converted it.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeVar

import orjson

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.memo import remembered
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.apiextensions.conversion import is_empty, webhook_of
from kubeskew.apiserver.apply.managedfields import FieldManager
from kubeskew.apiserver.registry.codec import Codec
from kubeskew.apiserver.registry.generic.services import RegistryServices

_Made = TypeVar("_Made")
_Key = tuple[str, bytes]

# Answers of the webhook during one write, by version and object; None where nobody waits for them.
_answers: ContextVar["dict[_Key, Object | StatusError] | None"] = ContextVar("answers", default=None)
MAX_MANAGER = 128


class _LackingError(Exception):
    """The webhook must be asked first."""

    def __init__(self, key: _Key, obj: Object, target: Resource) -> None:
        super().__init__(key)
        self.key = key
        self.obj = obj
        self.target = target


def converted(obj: Object, target: Resource) -> Object | None:
    """None means that no webhook is asked; raises StatusError if it failed."""
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
    """`work` begins again when the webhook has converted an object that it lacked."""
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


def field_manager(services: RegistryServices, resource: Resource) -> FieldManager:
    """The field manager knows the schema of every registered version."""

    def schema_for(api_version: str) -> Schema | None:
        group, _, version = api_version.rpartition("/")
        found = services.table.by_kind(group, version, resource.kind)
        if found is None and resource.custom:  # upstream words it otherwise for them
            raise StatusError(500, "", f"request to convert CR to an invalid group/version: {api_version}")
        return found.schema if found else None

    def convert(obj: Object, api_version: str) -> Object:
        group, _, version = api_version.rpartition("/")
        target = services.table.by_kind(group, version, resource.kind)
        known = converted(obj, target) if target is not None else None
        if known is not None:
            return known
        if resource.custom and services.features.requests.conversion_wants_metadata:
            _check_metadata(obj, api_version)
        return services.codec.convert_to(obj, GroupVersionKind(group, version, resource.kind))

    return FieldManager(
        schema_for,
        convert,
        blank=not resource.custom,
        refuses_duplicates=services.features.requests.refuses_duplicates,
    )


def _check_metadata(obj: Object, api_version: str) -> None:
    """An object that lost its metadata on the way raises 500, unless it has nothing at all.

    Source: apiextensions-apiserver pkg/apiserver/conversion/converter.go (restoreObjectMeta), 1.27.0, where
    the object has the new version when its name is reported.
    """
    if "metadata" not in obj and not is_empty(obj):
        what = f"conversion for {api_version}, Kind={obj.get('kind')} returned invalid metadata"
        raise StatusError(500, "", f"{what} in object at index 1: missing metadata in converted object")


def manager_name(field_manager_param: str, user_agent: str) -> str:
    return field_manager_param or _product(user_agent)


@remembered(256)
def _product(user_agent: str) -> str:
    name = "".join(char for char in user_agent.split("/", 1)[0][:MAX_MANAGER] if char.isprintable())
    return name or "unknown"
