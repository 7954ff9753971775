"""Turns the moments of a log into flat rows, oldest first, for scenarios and for people."""

from collections.abc import AsyncGenerator, AsyncIterator, MutableMapping
from datetime import datetime
from typing import Any

import orjson

from kubeskew.apimachinery.clock import micro_timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.storage.etcd.keys import OPAQUE, opaque_value
from kubeskew.apiserver.storage.interfaces import DamageError
from kubeskew.apiserver.storage.records import DAMAGED, ComponentEvent, Event, Moment, Place
from kubeskew.conformance.evidence.log import ComponentChange, Logged, Write

Row = dict[str, Any]

_NODE_USER = "system:node:"


async def rows(moments: AsyncIterator[Moment]) -> AsyncGenerator[Row, None]:
    async for moment in moments:
        yield _component_row(moment) if isinstance(moment, ComponentEvent) else _row(moment)


async def evidence(
    moments: AsyncIterator[Moment], known: MutableMapping[Place, Write] | None = None
) -> list[Logged]:
    """Reads moments with their objects, as scenarios judge them. Raises DamageError if one is damaged.

    `known` keeps the writes by their places, for a caller that reads one log again and again; a write whose
    author the log has learnt since is read again.
    """
    writes = {} if known is None else known
    return [_logged(moment, writes) async for moment in moments]


async def logged(moments: AsyncIterator[Moment]) -> AsyncGenerator[Logged, None]:
    """Moments get their objects as they come. Raises DamageError if one is damaged."""
    async for moment in moments:
        yield _logged(moment, {})


def _logged(moment: Moment, known: MutableMapping[Place, Write]) -> Logged:
    if isinstance(moment, ComponentEvent):
        return ComponentChange(
            *(moment.revision, _time(moment.time), moment.component),
            *(moment.what, moment.version, moment.gates, moment.detail),
        )
    place = moment.revision, moment.sub
    write = known.get(place)
    author = moment.author
    if write is None or (write.server, write.user) != (author.server_version, author.user):
        key = moment.key
        write = known[place] = Write(
            *(moment.revision, _time(moment.time), moment.verb.value),
            *(key.resource, key.namespace, key.name, _writer(moment)),
            *(_value(moment), author.server_version, author.user),
        )
    return write


def _value(event: Event) -> Object:
    """Raises DamageError if the bytes hold no object, unless they are those of a key of etcd's."""
    if event.key.resource == OPAQUE and event.value is not DAMAGED:
        return opaque_value(event.value)
    try:
        value: object = orjson.loads(event.value)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        key = event.key
        place = "/".join(part for part in (key.namespace, key.name) if part)
        raise DamageError(f"the log's event {event.revision}, of {key.resource} {place}, cannot be read")
    return value


def _writer(event: Event) -> str:
    """Names component and version; of a kubelet also the node: `kubelet/node-1 1.35`."""
    author = event.author
    node = author.user.removeprefix(_NODE_USER) if author.user.startswith(_NODE_USER) else ""
    component = f"kubelet/{node}" if node and author.component == "kubelet" else author.component
    return f"{component} {author.component_version}".rstrip()


def _row(event: Event) -> Row:
    key, author = event.key, event.author
    place = f"{key.namespace}/" if key.namespace else ""
    return {
        "revision": event.revision,
        "time": _time(event.time),
        "verb": event.verb.value,
        "object": f"{key.resource} {place}{key.name}",
        "by": _writer(event),
        "user": author.user,
        "server": author.server_version,
        "request": author.request_id,
    }


def _component_row(event: ComponentEvent) -> Row:
    by = " ".join(filter(None, (event.component, event.version, event.gates)))
    detail = f": {event.detail}" if event.detail else ""
    return {
        "revision": event.revision,
        "time": _time(event.time),
        "verb": event.what,
        "object": f"component {event.component}",
        "by": f"{by}{detail}",
        "user": "",
        "server": "",
        "request": "",
    }


def _time(moment: datetime) -> str:
    return micro_timestamp(moment)
