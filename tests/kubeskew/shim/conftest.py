"""An API server, and what both it and the proxy need to serve."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from upstream_server import Files, Upstream

from kubeskew.cluster.pki import Authority


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(Authority.create(datetime.now(UTC)), tmp_path_factory.mktemp("shim"))


@pytest.fixture
async def upstream(files: Files) -> AsyncIterator[Upstream]:
    server = await Upstream().start(files)
    yield server
    await server.stop()
