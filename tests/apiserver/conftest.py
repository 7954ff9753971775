"""A server in this process, and a way to call it."""

from collections.abc import AsyncIterator

import pytest
from server_in_process import Caller, close_server, open_server

from apiserver.server import APIServer


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
