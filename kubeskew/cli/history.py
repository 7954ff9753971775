"""Reads the log of a cluster for people."""

from collections.abc import AsyncGenerator, Callable

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.failures import CompactedError, FutureRevisionError
from kubeskew.apiserver.storage.reading import LogReader
from kubeskew.cli.resource_arguments import resource_of
from kubeskew.cluster.branching.moment import unkept
from kubeskew.cluster.failures import UserError
from kubeskew.conformance.evidence.reading import Row, rows


async def events_since(
    url: str,
    since: int,
    resource: str | None = None,
    *,
    until: int | None = None,
    follow: Clock | None = None,
    is_current: Callable[[], bool] = lambda: True,
) -> AsyncGenerator[Row, None]:
    """Yields who wrote what at which version, after a revision; with a clock to `follow`, it ends only with
    StorageError, when the log is not `is_current` any more.

    `resource` is named as `resource_of` takes it. Raises UserError for one that is unknown or ambiguous, and
    if `until`, the last revision that is wanted, is not behind those that are compacted.
    """
    async with await LogReader.open(url) as reader:
        if resource is not None:
            resource = resource_of(resource, await reader.resources())
        if since > (newest := await reader.revision()):
            raise unkept(FutureRevisionError(since, newest))
        horizon = await reader.horizon()
        if until is not None and horizon and until <= horizon:
            raise UserError(f"--until: {unkept(CompactedError(until, horizon))}")
        moments = (
            reader.events(since, resource)
            if follow is None
            else reader.follow(follow, since, resource, is_current)
        )
        async for row in rows(moments):
            yield row
