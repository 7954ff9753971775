"""Lists and watches as tests ask for them, and servers of other releases."""

from contextlib import asynccontextmanager

from server_in_process import Caller, close_server, open_server


def names(answer):
    return "".join(item["metadata"]["name"] for item in answer.body["items"])


@asynccontextmanager
async def of_version(minor, bugs=None, **gates):
    """A server of another minor, and the administrator's way to it."""
    server = await open_server(minor, gates=gates, bugs=bugs or {})
    try:
        yield Caller(server)
    finally:
        await close_server(server)


async def watched(api, target):
    """The events of a watch that ends by itself: type and object."""
    return [event async for event in api.watch(target)]


async def gather(api, target, count):
    """The first `count` events of a watch, as (type, name)."""
    events = []
    async for kind, obj in api.watch(target):
        events.append((kind, obj["metadata"].get("name")))
        if len(events) == count:
            return events
    return events
