"""Clusters in memory, in virtual time."""

import pytest
from fake_cluster import Cluster


@pytest.fixture
async def cluster():
    cluster = Cluster()
    yield cluster
    await cluster.stop()


@pytest.fixture
async def make_cluster():
    made = []

    def make(*arguments, **options):
        made.append(Cluster(*arguments, **options))
        return made[-1]

    yield make
    for cluster in made:
        await cluster.stop()
