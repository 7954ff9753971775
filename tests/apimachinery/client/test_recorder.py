"""Event recording: counting, combining, and what events look like."""

import aiohttp
import pytest

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import EVENTS, EVENTS_V1

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "5"},
}


@pytest.fixture
async def recorder(client, clock):
    recorder = EventRecorder(client, clock, "kubelet", "node-1")
    yield recorder
    await recorder.close()


async def test_an_event_has_upstreams_shape(client, recorder):
    """Reference, source, times and count as kubectl describe shows them."""
    recorder.event(POD, "Normal", "Started", "Started container")
    await recorder.flush()
    (event,) = (await client.list(EVENTS, "ns"))["items"]

    assert {"apiVersion", "kind", "metadata", "type", "reason", "message", "involvedObject", "source"} <= set(
        event
    )
    assert event["involvedObject"] == {
        "kind": "Pod",
        "namespace": "ns",
        "name": "p",
        "uid": "u",
        "apiVersion": "v1",
        "resourceVersion": "5",
    }
    assert event["source"] == {"component": "kubelet", "host": "node-1"}
    assert event["metadata"]["name"].startswith("p.")
    assert (event["firstTimestamp"], event["count"]) == ("2026-01-01T00:00:00Z", 1)


async def test_a_repeated_event_is_counted(client, recorder, clock):
    """An event of the same content raises count and lastTimestamp of the one that is there."""
    for _ in range(3):
        recorder.event(POD, "Warning", "BackOff", "Back-off")
        await clock.sleep(10)
    await recorder.flush()
    (event,) = (await client.list(EVENTS, "ns"))["items"]

    assert (event["count"], event["lastTimestamp"]) == (3, "2026-01-01T00:00:20Z")


async def test_containers_of_a_pod_are_distinguished(client, recorder):
    """Events of the same words about two containers are two, each with its field path."""
    for name in ("a", "b"):
        recorder.event(POD, "Normal", "Created", "Container created", field_path=f"spec.containers{{{name}}}")
    await recorder.flush()
    events = (await client.list(EVENTS, "ns"))["items"]

    paths = [event["involvedObject"]["fieldPath"] for event in events]
    assert paths == ["spec.containers{a}", "spec.containers{b}"]


async def test_an_expired_event_begins_again(client, recorder):
    """The recorder makes a new event if the server no longer has the one that it would count up."""
    recorder.event(POD, "Normal", "Pulled", "pulled")
    await recorder.flush()
    await client.delete_collection(EVENTS, "ns")
    recorder.event(POD, "Normal", "Pulled", "pulled")
    await recorder.flush()
    (event,) = (await client.list(EVENTS, "ns"))["items"]

    assert event["count"] == 1


async def test_many_similar_events_are_combined(client, recorder):
    """From the tenth different message on, one event counts them."""
    for number in range(15):
        recorder.event(POD, "Warning", "Failed", f"attempt {number}")
    await recorder.flush()
    events = (await client.list(EVENTS, "ns"))["items"]
    combined = [event for event in events if event["message"].startswith("(combined from similar events): ")]

    assert len(events) == 10
    assert [event["count"] for event in combined] == [6]


async def test_an_object_with_too_many_events_gets_fewer(client, recorder, clock):
    """After 25 events one is written every five minutes; it counts those that were not."""
    for number in range(40):
        recorder.event(POD, "Normal", "Created", f"pod {number}")
    await recorder.flush()
    events = (await client.list(EVENTS, "ns"))["items"]

    assert sorted(event["count"] for event in events) == [1] * 9 + [16]

    await clock.sleep(300)
    recorder.event(POD, "Normal", "Created", "the last")
    await recorder.flush()
    events = (await client.list(EVENTS, "ns"))["items"]

    assert max(event["count"] for event in events) == 32


async def test_events_wait_for_a_server_that_is_away(client, server, recorder, clock):
    """Recording never raises; the event arrives when the server does."""
    server.outage = lambda request: aiohttp.ClientConnectionError("refused")
    recorder.event(POD, "Normal", "Started", "Started container")
    await clock.sleep(2)
    server.outage = None
    await recorder.flush()

    assert len((await client.list(EVENTS, "ns"))["items"]) == 1


async def test_modern_events_carry_an_action(client, clock):
    """events.k8s.io/v1, as the scheduler records; repeats make a series."""
    recorder = EventRecorder(client, clock, "default-scheduler", "host", modern=True)
    for _ in range(2):
        recorder.event(POD, "Normal", "Scheduled", "assigned", action="Binding")
    await recorder.flush()
    (event,) = (await client.list(EVENTS_V1, "ns"))["items"]

    assert (
        event["action"],
        event["note"],
        event["reportingController"],
        event["reportingInstance"],
    ) == ("Binding", "assigned", "default-scheduler", "default-scheduler-host")
    assert event["series"]["count"] == 2

    await recorder.close()
