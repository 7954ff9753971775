"""Definitions go with all their objects, and take no new ones meanwhile."""

import asyncio

import pytest
from custom_definitions import (
    DEFINITIONS,
    GROUP,
    applied,
    define,
    definition,
    deleted,
    only,
    path,
    thing,
    until,
)
from server_in_process import Caller, close_server, open_server


async def test_the_end_of_a_definition(api: Caller):
    """The objects of a deleted definition go first; while one stays, nothing new is made, and discovery says
    so.
    """
    await define(api, "foos")
    kept = thing("kept")
    kept["metadata"]["finalizers"] = ["test.example.com/hold"]
    await api.post(path("foos"), kept)
    await api.post(path("foos"), thing("other"))

    one = deleted(api, f"{path('foos')}?watch=true")
    await asyncio.gather(one, api.delete(f"{DEFINITIONS}/foos.{GROUP}"))
    why = "create not allowed while custom resource definition is terminating"
    why = f'foos.{GROUP} "late" is forbidden: {why}'
    for refused in (await api.post(path("foos"), thing("late")), await applied(api, thing("late"))):
        assert (refused.status, refused.body["message"]) == (403, why)
    assert (await applied(api, thing("kept", size="1"))).status == 200
    listed = (await api.get(f"/apis/{GROUP}/v1")).body["resources"][0]
    assert "create" not in listed["verbs"]

    released = api.patch(f"{path('foos')}/kept", {"metadata": {"finalizers": None}})
    await asyncio.gather(deleted(api, only("foos")), released)
    answer = await api.get(path("foos"))
    assert (answer.status, answer.raw) == (404, b"404 page not found\n")


async def test_the_end_of_a_definition_in_older_releases():
    """Up to 1.33 only a request to create is refused, and an apply makes a new object (132467)."""
    server = await open_server(33)
    api = Caller(server)
    await define(api, "foos")
    kept = thing("kept")
    kept["metadata"]["finalizers"] = ["test.example.com/hold"]
    await api.post(path("foos"), kept)
    await asyncio.gather(until(api, "foos", "Terminating"), api.delete(f"{DEFINITIONS}/foos.{GROUP}"))

    refused = await api.post(path("foos"), thing("late"))
    why = "create not allowed while custom resource definition is terminating"
    assert (refused.status, refused.body["message"]) == (405, why)
    assert (await applied(api, thing("late"))).status == 201
    await close_server(server)


@pytest.mark.parametrize(("minor", "made"), [(33, 201), (36, 201), (37, 403)])
async def test_a_definition_without_objects_that_stays(minor: int, made: int):
    """A finalizer keeps a deleted definition, of which new objects are made up to 1.36 (137604)."""
    server = await open_server(minor)
    api = Caller(server)
    held = definition("foos")
    held["metadata"]["finalizers"] = ["test.example.com/hold"]
    await api.post(DEFINITIONS, held)
    await until(api, "foos", "Established")
    await api.delete(f"{DEFINITIONS}/foos.{GROUP}")
    status = await until(api, "foos", "Terminating", "False")
    assert status["conditions"]["Terminating"]["reason"] == "InstanceDeletionCompleted"

    assert (await api.post(path("foos"), thing("late"))).status == made
    assert (await applied(api, thing("later"))).status == made
    await close_server(server)
