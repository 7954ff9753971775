"""A plugin of pytest, which knows it once kubeskew is installed: the fixture `simulated_cluster`.

    def test_the_operator_survives_an_upgrade(simulated_cluster):
        cluster = simulated_cluster(seed=7, version="1.35")

        async def story():
            cluster.start("operator", lambda: my_operator(cluster.kubeconfig))
            await cluster.upgrade("1.36")

        cluster.run(story())

It imports the simulation only where a test asks for it.
"""

from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from kubeskew.simulation.simulated_cluster import SimulatedCluster


class MakesClusters(Protocol):
    """Makes a simulated cluster of a seed and the keys of a cluster file."""

    def __call__(self, seed: int = 0, **cluster: Any) -> "SimulatedCluster": ...


@pytest.fixture
def simulated_cluster() -> MakesClusters:
    """Makes simulated clusters: `simulated_cluster(seed=7, version="1.35", nodes=[{"name": "a"}])`."""
    from kubeskew.simulation.simulated_cluster import SimulatedCluster

    return SimulatedCluster
