"""What every test runs in."""

import asyncio
from collections.abc import Iterator

import pytest


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
