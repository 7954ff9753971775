"""The log for people: each event as a flat row, oldest first."""

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import orjson

from kubeskew.apimachinery.clock import Clock, micro_timestamp
from kubeskew.apiserver.storage.reading import LogReader, Moment
from kubeskew.apiserver.storage.records import ComponentEvent, Event
from kubeskew.conformance.evidence.log import ComponentChange, Logged, Write

Row = dict[str, Any]


async def events_since(
    url: str, since: int, resource: str | None = None, *, follow: Clock | None = None
) -> AsyncGenerator[Row, None]:
    """Who wrote what at which version, after a revision; with a clock to `follow`, it does not end."""
    async with await LogReader.open(url) as reader:
        moments = reader.events(since, resource) if follow is None else reader.follow(follow, since, resource)
        async for moment in moments:
            yield _component_row(moment) if isinstance(moment, ComponentEvent) else _row(moment)


async def evidence(url: str) -> list[Logged]:
    """The whole log with its objects, as scenarios judge it."""
    async with await LogReader.open(url) as reader:
        return [_logged(moment) async for moment in reader.events()]


async def newest_revision(url: str) -> int:
    """The revision of the last write."""
    async with await LogReader.open(url) as reader:
        return await reader.revision()


def _logged(moment: Moment) -> Logged:
    if isinstance(moment, ComponentEvent):
        return ComponentChange(
            *(moment.revision, _time(moment.time), moment.component),
            *(moment.what, moment.version, moment.gates),
        )
    key = moment.key
    return Write(
        *(moment.revision, _time(moment.time), moment.verb.value),
        *(key.resource, key.namespace, key.name, _writer(moment)),
        orjson.loads(moment.value),
    )


def _writer(event: Event) -> str:
    author = event.author
    return f"{author.component} {author.component_version}".rstrip()


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
    gates = f" {event.gates}" if event.gates else ""
    return {
        "revision": event.revision,
        "time": _time(event.time),
        "verb": event.what,
        "object": f"component {event.component}",
        "by": f"{event.component} {event.version}{gates}",
        "user": "",
        "server": "",
        "request": "",
    }


def _time(moment: datetime) -> str:
    return micro_timestamp(moment)
