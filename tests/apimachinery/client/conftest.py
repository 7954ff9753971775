"""Gives client tests virtual time, a seed and an API server in memory."""

import pytest
from fake_server import FakeServer


@pytest.fixture
def server(clock, entropy):
    return FakeServer(clock, entropy)
