"""Nodes whose containers are processes of this machine."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from host_node import HostNode, NodeMaker

from kubeskew.kubelet.containers.host.cleanup import cleanup
from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError


@pytest.fixture
async def make_node(tmp_path: Path) -> AsyncIterator[NodeMaker]:
    """Makes nodes; skips where the kernel lets nobody make namespaces."""
    made: list[HostNode] = []

    async def make(**options: Any) -> HostNode:
        node = HostNode(tmp_path / f"machine-{len(made)}", **options)
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
        await node.leave()
    cleanup(tmp_path)


@pytest.fixture
async def node(make_node: NodeMaker) -> HostNode:
    return await make_node()
