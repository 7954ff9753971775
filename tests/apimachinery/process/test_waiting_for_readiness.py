"""The readiness of a component can be waited for with one request."""

import asyncio

import pytest
from aiohttp import ClientSession
from prometheus_client import CollectorRegistry

from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.apimachinery.process.listeners import serve_health


async def test_an_answer_waits_until_the_component_is_ready():
    """With `wait`, /readyz answers when the component becomes ready, not before."""
    health, ready = Health(CollectorRegistry()), []
    health.add_check("part", lambda: bool(ready))
    async with serve_health(health, "127.0.0.1", 0) as port, ClientSession() as session:
        asking = asyncio.create_task(session.get(f"http://127.0.0.1:{port}/readyz?wait=20"))
        assert (await session.get(f"http://127.0.0.1:{port}/readyz")).status == 500
        assert not asking.done()

        ready.append(True)

        assert (await asking).status == 200


@pytest.mark.parametrize("wait", ["0", "0.02", "-1", "soon", "nan"])
async def test_a_wait_is_bounded_and_never_an_error(wait):
    """A wait that runs out, or that is not a number, is answered as a request without a wait."""
    health = Health(CollectorRegistry())
    health.add_check("part", lambda: "missing")
    async with serve_health(health, "127.0.0.1", 0) as port, ClientSession() as session:
        answer = await session.get(f"http://127.0.0.1:{port}/readyz?wait={wait}")
        assert (answer.status, await answer.text()) == (500, "part: missing")
