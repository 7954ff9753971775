"""Forms of watch streams: where events begin, what they are, and errors in the same form."""

import pytest
from protobuf_frames import frame

from kubeskew.apimachinery.faults.fault import Call
from kubeskew.apimachinery.protobuf_wire import MAGIC, payload, raw_object
from kubeskew.shim.watch_events import JSONStream, ProtobufStream, Rest, UnknownStream, events, stream_of

WATCH = Call("watch", "pods", user="u")


def json_event(kind, name):
    return b'{"type":"%b","object":{"metadata":{"namespace":"ns","name":"%b"}}}\n' % (kind, name)


STREAMS = [
    (JSONStream, [json_event(b"ADDED", b"a"), json_event(b"MODIFIED", b"bb"), json_event(b"DELETED", b"c")]),
    (ProtobufStream, [frame("ADDED", "a"), frame("MODIFIED", "bb", envelope=True), frame("DELETED", "c")]),
]


@pytest.mark.parametrize(("form", "stream"), STREAMS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_come_whole(form, stream, size):
    """Events are whole, regardless of the pieces in which the stream comes."""
    whole = b"".join(stream)
    reader = form()
    taken = [e for at in range(0, len(whole), size) for e in reader.take(whole[at : at + size])]

    assert taken == stream
    calls = [reader.call(WATCH, event) for event in taken]
    assert [(call.event, call.namespace, call.name, call.user) for call in calls] == [
        ("ADDED", "ns", "a", "u"),
        ("MODIFIED", "ns", "bb", "u"),
        ("DELETED", "ns", "c", "u"),
    ]


@pytest.mark.parametrize(("form", "stream"), STREAMS)
def test_what_has_begun_is_no_event(form, stream):
    """Events may be wanted in the midst of one: its rest goes through, and the next one is whole, at every
    byte of the stream."""
    whole = b"".join(stream)
    begins = [0, len(stream[0]), len(stream[0] + stream[1]), len(whole)]
    for cut in range(len(whole) + 1):
        reader = form()
        reader.skip(whole[:cut])
        taken = [*reader.take(whole[cut:])]
        wanted = [event for begin, event in zip(begins, stream, strict=False) if begin >= cut]
        assert b"".join(taken) == whole[cut:]
        assert [event for event in taken if not isinstance(event, Rest)] == wanted
        assert all(reader.call(WATCH, event) is None for event in taken if isinstance(event, Rest))


async def test_pieces_stay_as_they_are_until_events_are_wanted():
    """Without a fault nothing is split or joined; from then on each event is one piece, and what did not end
    comes last."""
    wanted = False

    async def pieces():
        nonlocal wanted
        yield b"abc"
        yield b"d\ne"
        wanted = True
        yield b"f\ng\nh"

    found = [piece async for piece in events(pieces(), JSONStream(), lambda: wanted)]
    assert found == [b"abc", b"d\ne", b"f\n", b"g\n", b"h"]
    assert [isinstance(piece, Rest) for piece in found] == [False, False, True, False, True]


STATUS = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "old", "code": 410}


def test_errors_have_the_form_of_the_stream():
    """An ERROR event is one line of JSON, or one frame with a Status that stands in an envelope."""
    [line] = JSONStream().take(JSONStream().error(STATUS))
    assert line.startswith(b'{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status"')
    [found] = ProtobufStream().take(ProtobufStream().error(STATUS))
    assert payload(found[4:], 1) == b"ERROR"
    status = payload(payload(found[4:], 2), 1)
    assert status.startswith(MAGIC)
    assert payload(raw_object(status), 3) == b"old"


@pytest.mark.parametrize(
    "broken", [b"\x00\x00\x00\x02\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00\x00\x03\x0a\x7fA"]
)
def test_a_frame_that_cannot_be_read_is_an_error(broken):
    """It counts as an ERROR event, like a line that is not JSON, and ends nothing here."""
    assert ProtobufStream().call(WATCH, broken).event == "ERROR"


@pytest.mark.parametrize(
    ("content_type", "form"),
    [
        ("application/json", JSONStream),
        ("application/json;stream=watch", JSONStream),
        ("application/vnd.kubernetes.protobuf;stream=watch", ProtobufStream),
        ("application/cbor-seq", UnknownStream),
        ("", UnknownStream),
    ],
)
def test_the_content_type_says_the_form(content_type, form):
    """Parameters do not matter; what nobody can read goes through without events."""
    stream = stream_of(content_type)
    assert type(stream) is form
    if form is UnknownStream:
        assert [*stream.take(b"xy")] == [b"xy"]
        assert stream.call(WATCH, b"xy") is None
