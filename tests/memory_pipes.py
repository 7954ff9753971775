"""Connections in memory, for tests of what is spoken over one."""

import asyncio


class Pipe:
    """One end of a connection in memory."""

    def __init__(self):
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.other: Pipe

    async def read(self):
        return await self.incoming.get()

    async def write(self, data):
        self.other.incoming.put_nowait(data)


def pipes():
    """Returns the two ends of a connection."""
    one, two = Pipe(), Pipe()
    one.other, two.other = two, one
    return one, two
