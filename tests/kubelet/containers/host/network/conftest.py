"""Networks of pods, and sockets for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pod_network import pod_network, require_namespaces, short_path

from kubeskew.apimachinery.process.network_agent import NetworkAgent


@pytest.fixture
def socket_path() -> Iterator[Path]:
    with short_path() as path:
        yield path


@pytest.fixture(scope="session")
def namespaces() -> None:
    require_namespaces()


@pytest.fixture
def network() -> Iterator[NetworkAgent]:
    """The network of a cluster without pods."""
    with pod_network() as agent:
        yield agent
