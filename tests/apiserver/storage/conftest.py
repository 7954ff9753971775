"""The logs that the event store's tests run over."""

from collections.abc import AsyncIterator

import pytest
from storage_cases import CLOCK, opener, url_in

from kubeskew.apiserver.storage.interfaces import Log
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql)


@pytest.fixture(params=["file", POSTGRESQL])
def url(request: pytest.FixtureRequest, tmp_path) -> str:
    """The URL of a log that is not there yet, in each database that processes can share."""
    if request.param == POSTGRESQL.values[0]:
        return str(request.getfixturevalue("postgresql").fresh())
    return url_in(tmp_path)


@pytest.fixture(params=["file", "memory", "model", "forwarded", POSTGRESQL])
async def log(request: pytest.FixtureRequest, tmp_path) -> AsyncIterator[Log]:
    """An empty log of each implementation."""
    if request.param == POSTGRESQL.values[0]:
        opened: Log = await SQLLog.open(request.getfixturevalue("postgresql").fresh(), CLOCK)
    else:
        opened = await opener(request.param, tmp_path)()
    yield opened
    await opened.close()


@pytest.fixture
async def store(log: Log) -> AsyncIterator[CachedStore]:
    """A store over an empty log of each implementation."""
    async with await CachedStore.open(log, CLOCK) as opened:
        yield opened
