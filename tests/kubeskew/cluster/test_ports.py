"""Ports of servers that are yet to come."""

import asyncio
import random

from kubeskew.cluster.ports import PORTS, HeldPorts


def alike(seed: str) -> HeldPorts:
    """Chooses in the same order as every other of that seed; tests that run at once have different ones."""
    return HeldPorts(random.Random(seed))


async def listening(port: int) -> asyncio.Server:
    """A server that ends each connection, so that it is the server's port that stays in TIME_WAIT."""
    return await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)


async def greeted(port: int) -> None:
    """A connection there and its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await reader.read()
    writer.close()
    await writer.wait_closed()


def test_two_clusters_that_start_at_once_choose_different_ports():
    """A chosen port is held for its cluster before anything listens on it."""
    with alike("different_ports") as one, alike("different_ports") as other:
        chosen = [ports.choose(()) for ports in (one, other, one, other)]

    assert len(set(chosen)) == 4
    assert set(chosen) < set(PORTS)


def test_a_port_of_the_cluster_itself_is_not_chosen():
    """Ports that the cluster has recorded count as taken, though nothing listens on them."""
    with alike("not_chosen") as ports:
        first = ports.choose(())
    with alike("not_chosen") as ports:
        assert ports.choose([first]) != first


async def test_the_server_it_was_meant_for_listens_on_a_held_port():
    """Holding keeps out who chooses, not who was given the port."""
    with alike("held_port") as ports:
        port = ports.choose(())
        assert ports.is_free(port)
        server = await listening(port)
    async with server:
        await greeted(port)
        assert not ports.is_free(port)


async def test_a_port_is_kept_while_its_server_restarts():
    """Connections of the server before it do not hinder that, and nobody else chooses it."""
    with alike("server_restarts") as ports:
        port = ports.choose(())
    async with await listening(port):
        await greeted(port)
    with alike("server_restarts") as ports, alike("server_restarts") as others:
        ports.keep(port)
        assert others.choose(()) != port
        async with await listening(port):
            assert not ports.is_free(port)
