"""The cluster of all tests of this operator."""

from pathlib import Path

import pytest
import yaml

DEFINITION = yaml.safe_load(Path(__file__).with_name("definition.yaml").read_text())


@pytest.fixture(scope="session")
def kubeskew_config():
    """Returns the cluster, as a cluster file has it; no node, for this operator needs none."""
    return {"version": "1.35", "nodes": []}


@pytest.fixture(scope="session")
def kubeskew_setup():
    """Installs the definition in a new cluster, and waits until its objects are served."""

    def install(cluster):
        cluster.client.apply(DEFINITION)
        cluster.eventually(lambda: cluster.client.list("example.com/v1", "Settings") == [])

    return install
