"""Fixtures and settings of every test."""

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator, Generator, Iterator

import pytest
from fake_server import FakeServer
from hypothesis import HealthCheck, is_hypothesis_test, settings
from loop_clock import LoopClock
from postgresql_server import PostgreSQLServer, missing, running_server
from randomness import examples

from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apimachinery.process.runtime import settle_memory

# gRPC's handlers of forks, where a test before has used gRPC, now and then abort a child that runs Python
# before its exec: about one in twelve. They are decided when grpc is imported, which nothing above does.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"

# Everybody's `make test` tries the same examples, however slow the machine; `make test-random` others.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("random", settings.get_profile("repeatable"), derandomize=False, print_blob=True)
settings.load_profile("repeatable")

# A process that a test forks leaves alone what other tests have left as garbage here. Else its collector ends
# their gRPC channels, and waits for ever for gRPC's thread, which has not been forked with it
# (PollerCompletionQueue.shutdown, grpc/_cython/_cygrpc/aio/completion_queue.pyx.pxi).
os.register_at_fork(after_in_child=gc.freeze)


# Processes that a test starts end at Ctrl-C, also where a script runs the suite in the background: a shell
# has SIGINT ignored there, which is inherited, whereas a handler becomes the default in a new program.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Freezes the tests that were found: a million objects, which the garbage collector would look through
    again and again, for a fifth of the time that all tests take. Finding them makes no garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        settle_memory()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as random what draws its examples; put first what may take long, so that in the end no worker
    waits for another's last test."""
    for item in items:
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            item.add_marker("random")
    items.sort(key=lambda item: -_minutes(item))


def _minutes(item: pytest.Item) -> int:
    """Returns for how many minutes a test may run, if it says so itself."""
    marker = item.get_closest_marker("timeout")
    return int(marker.args[0] // 60) if marker is not None else 0


@pytest.fixture(scope="session", autouse=True)
def outer_loop() -> Iterator[None]:
    """An event loop outside the tests' own, closed at the end.

    pytest-asyncio asks for the current loop before each test, to restore it; were there none, asyncio would
    make one that nobody closes, and warnings are errors.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def clock() -> LoopClock:
    """A clock in virtual time."""
    return LoopClock()


@pytest.fixture
def entropy() -> SeededEntropy:
    return SeededEntropy(1)


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[APIClient]:
    """A client of the fake server that a folder's conftest makes."""
    client = server.client()
    yield client
    await client.close()


@pytest.fixture(scope="session")
def needs_postgresql() -> None:
    """PostgreSQL can be started here; tests are skipped, and say why, where its server is not installed."""
    if reason := missing():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def postgresql(needs_postgresql: None) -> Iterator[PostgreSQLServer]:
    """A PostgreSQL server that all tests of this process share."""
    with running_server() as server:
        yield server
