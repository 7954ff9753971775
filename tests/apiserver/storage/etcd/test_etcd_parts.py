"""Parts of etcd's API by themselves: sorted keys, encodings, the window of states."""

import random

import pytest

from kubeskew.apiserver.storage.etcd import keyspace as keyspaces
from kubeskew.apiserver.storage.etcd.backing import ALL_KEYS, Commit, Record
from kubeskew.apiserver.storage.etcd.keyspace import Keyspace
from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb
from kubeskew.apiserver.storage.etcd.sorted_keys import SortedKeys, prefix_end, prefix_of
from kubeskew.apiserver.storage.etcd.wire import Change, Headers, State, field, varint


def test_sorted_keys_are_a_sorted_set():
    """After any additions and removals, ranges and counts are those of a sorted list."""
    draw = random.Random(1)
    keys = SortedKeys()
    model: set[bytes] = set()
    for step in range(6000):
        key = b"%d" % draw.randrange(4000)
        if key in model:
            keys.remove(key)
            model.remove(key)
        else:
            keys.add(key)
            model.add(key)
        if step % 100 == 0:
            first, end = (b"%d" % draw.randrange(4000) for _ in range(2))
            expected = sorted(name for name in model if first <= name < end)
            assert list(keys.between(first, end)) == expected
            assert keys.count(first, end) == len(expected)
            assert keys.count(ALL_KEYS, ALL_KEYS) == len(list(keys.between(ALL_KEYS, ALL_KEYS))) == len(model)


@pytest.mark.parametrize(
    ("prefix", "end"), [(b"a", b"b"), (b"a/", b"a0"), (b"a\xff", b"b"), (b"\xff\xff", ALL_KEYS)]
)
def test_ends_of_prefixes(prefix: bytes, end: bytes):
    """The end of a prefix is the key after all that begin with it."""
    assert prefix_end(prefix) == end
    assert prefix_of(prefix, end) == prefix
    assert prefix_of(prefix, prefix + b"\0") is None


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 1 << 32, (1 << 63) - 1, -1, -(1 << 63)])
def test_numbers_are_encoded_as_by_the_library(number: int):
    """Numbers have protobuf's encoding, negative ones too; zero takes no field."""
    message = pb.LeaseGrantRequest(ID=number)
    assert field(b"\x10", number) == message.SerializeToString()
    assert varint(0) == b"\0"


@pytest.mark.parametrize("value", [None, b"", b"x", bytes(300)])
@pytest.mark.parametrize("lease", [0, 5, -3])
def test_states_and_events_are_encoded_as_by_the_library(value: bytes | None, lease: int):
    """Keys with values, headers and events have the bytes that the library gives them."""
    state = State(b"key", value, 2, 300, 4, lease)
    kv = pb.KeyValue(
        key=b"key", value=value or b"", create_revision=2, mod_revision=300, version=4, lease=lease
    )
    assert b"\x12" + state.encoded() == pb.RangeResponse(kvs=[kv]).SerializeToString()
    previous = State(b"key", b"old", 2, 9, 1, 0)
    event = pb.Event(type=pb.Event.DELETE if value is None else pb.Event.PUT, kv=kv)
    change = Change(state, previous)
    assert change.event == pb.WatchResponse(events=[event]).SerializeToString()
    event.prev_kv.CopyFrom(pb.KeyValue.FromString(previous.encoded()[1:]))
    assert change.event_with_previous == pb.WatchResponse(events=[event]).SerializeToString()
    header = pb.ResponseHeader(cluster_id=5, member_id=6, revision=7, raft_term=1)
    assert Headers(5, 6).header(7) == pb.PutResponse(header=header).SerializeToString()


def test_the_window_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """States that were superseded leave memory, the oldest first; what exists stays."""
    monkeypatch.setattr(keyspaces, "WINDOW_BYTES", 10_000)
    keyspace = Keyspace(1, 0, [])
    for revision in range(2, 502):
        keyspace.apply(Commit(revision, [Record(b"%d" % (revision % 7), bytes(100), 2, revision, 1, 0)]))
    assert 470 < keyspace.floor < 500
    assert sum(len(past) for past in keyspace._past.values()) < 40
    assert (
        len(keyspace.current(ALL_KEYS, ALL_KEYS)) == len(keyspace.at(keyspace.floor, ALL_KEYS, ALL_KEYS)) == 7
    )
    assert [revision for revision, _ in keyspace.changes_since(keyspace.floor + 1, 1000)][-1] == 501
