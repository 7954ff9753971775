"""A server in this process, and a way to call it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from admission_objects import clean
from server_in_process import Caller, close_server, open_server

from kubeskew.apiserver.server import APIServer


@pytest.fixture
async def server() -> AsyncIterator[APIServer]:
    """A fresh server of 1.36, with what a new cluster has."""
    made = await open_server()
    yield made
    await close_server(made)


@pytest.fixture
def api(server: APIServer) -> Caller:
    """The server as the administrator calls it."""
    return Caller(server)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_server() -> AsyncIterator[APIServer]:
    """A server that the tests of a module share."""
    made = await open_server()
    yield made
    await close_server(made)


@pytest_asyncio.fixture(loop_scope="module")
async def call(module_server: APIServer) -> AsyncIterator[Caller]:
    """The administrator of a shared server; what a test has configured and made goes with it."""
    made = Caller(module_server)
    yield made
    await clean(made)
