"""Nodes whose containers are processes of this machine."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from host_node import HostNode, NodeMaker

from kubeskew.kubelet.containers.host.cleanup import cleanup
from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError


@pytest.fixture(scope="session")
def node_states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The states of nodes, whose parent processes serve all tests that leave them alive."""
    states = tmp_path_factory.mktemp("nodes")
    yield states
    cleanup(states)


@pytest.fixture
async def make_node(tmp_path: Path, node_states: Path) -> AsyncIterator[NodeMaker]:
    """Makes nodes; skips where the kernel lets nobody make namespaces."""
    made: list[HostNode] = []

    async def make(**options: Any) -> HostNode:
        named = "-".join(f"{name}-{value}" for name, value in sorted(options.items()))
        state = tmp_path / "state" if "networks" in options else node_states / named
        node = HostNode(tmp_path / f"machine-{len(made)}", state, **options)
        made.append(node)
        try:
            await node.load()
        except ContainerRuntimeError as error:
            if "lets kubeskew make no namespaces" in str(error):
                pytest.skip(str(error))
            raise
        return node

    yield make
    for node in made:
        await node.clear()
        await node.leave()
    cleanup(tmp_path)


@pytest.fixture
async def node(make_node: NodeMaker) -> HostNode:
    return await make_node()
