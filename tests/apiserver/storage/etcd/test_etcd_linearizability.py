"""The checker of linearizability finds the defects that it is for, and takes what is allowed."""

import math

import pytest
from etcd_model import FUTURE, State, neutral
from linearizability import NotLinearizableError, Operation, linearized

from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb

A = b"a"
NEVER = math.inf


def put(value: bytes) -> pb.PutRequest:
    return pb.PutRequest(key=A, value=value)


def get(revision: int = 0) -> pb.RangeRequest:
    return pb.RangeRequest(key=A, revision=revision)


def update(at: int, value: bytes) -> pb.TxnRequest:
    """A write that is done if the key is at the revision (0: is not there)."""
    compare = pb.Compare(key=A, target=pb.Compare.MOD, mod_revision=at)
    return pb.TxnRequest(compare=[compare], success=[pb.RequestOp(request_put=put(value))])


def written(revision: int) -> pb.PutResponse:
    return pb.PutResponse(header=pb.ResponseHeader(revision=revision))


def deleted(revision: int, count: int) -> pb.DeleteRangeResponse:
    return pb.DeleteRangeResponse(header=pb.ResponseHeader(revision=revision), deleted=count)


def found(revision: int, *kvs: pb.KeyValue) -> pb.RangeResponse:
    return pb.RangeResponse(header=pb.ResponseHeader(revision=revision), kvs=kvs, count=len(kvs))


def updated(revision: int, succeeded: bool) -> pb.TxnResponse:
    answer = pb.TxnResponse(header=pb.ResponseHeader(revision=revision), succeeded=succeeded)
    if succeeded:
        answer.responses.add(response_put=pb.PutResponse())
    return neutral(answer)


def kv(value: bytes, revision: int, created: int = 2, version: int = 1) -> pb.KeyValue:
    return pb.KeyValue(
        key=A, value=value, create_revision=created, mod_revision=revision, version=version
    )  # fmt: skip


DELETE = pb.DeleteRangeRequest(key=A)
Call = tuple[object, int, float, object]


def history(*calls: Call) -> list[Operation]:
    return [
        Operation(client, request, called, returned, answer)
        for client, (request, called, returned, answer) in enumerate(calls)
    ]


@pytest.mark.parametrize(
    "calls",
    [
        [(put(b"1"), 0, 1, written(2)), (get(), 2, 3, found(2, kv(b"1", 2)))],
        # The read is of the time of both puts, and may see neither, the first, or both.
        *(
            [(put(b"1"), 0, 9, written(2)), (put(b"2"), 1, 8, written(3)), (get(), 2, 7, seen)]
            for seen in (found(1), found(2, kv(b"1", 2)), found(3, kv(b"2", 3, 2, 2)))
        ),
        [(put(b"1"), 0, NEVER, None), (get(), 2, 3, found(1)), (get(), 4, 5, found(2, kv(b"1", 2)))],
        [(put(b"1"), 0, NEVER, None), (get(), 2, 3, found(1)), (put(b"2"), 4, 5, written(2))],
        [(DELETE, 0, NEVER, None), (put(b"1"), 2, 3, written(2)), (get(), 4, 5, found(3))],
        [(update(0, b"1"), 0, 9, updated(2, True)), (update(0, b"2"), 1, 8, updated(2, False))],
        [(get(2), 0, 1, FUTURE), (put(b"1"), 2, 3, written(2)), (DELETE, 4, 5, deleted(3, 1)),
         (get(2), 6, 7, found(3, kv(b"1", 2)))],
    ],
    ids=range(9),
)  # fmt: skip
def test_an_order_is_found(calls: list[Call]):
    """Answers that one server can have given are taken, whatever became of the calls without one."""
    order = linearized(history(*calls), State.empty())
    assert [call for call in order if call.answered] != []


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(
            [(put(b"1"), 0, 1, written(2)), (get(), 2, 3, found(1))], id="a stale read"
        ),
        pytest.param(
            [(put(b"1"), 0, 1, written(2)), (put(b"2"), 2, 3, written(3)),
             (get(), 4, 5, found(3, kv(b"1", 2)))], id="a stale read of the newest revision"
        ),
        pytest.param(
            [(put(b"1"), 0, 9, written(2)), (get(), 2, 3, found(2, kv(b"1", 2))), (get(), 4, 5, found(1))],
            id="a read that goes back",
        ),
        pytest.param(
            [(put(b"1"), 0, 1, written(2)), (put(b"2"), 2, 3, written(2))], id="a lost write"
        ),
        pytest.param(
            [(put(b"1"), 0, 1, written(2)), (get(), 2, 3, found(2))], id="a lost write that is read"
        ),
        pytest.param(
            [(update(0, b"1"), 0, 9, updated(2, True)), (update(0, b"2"), 1, 8, updated(3, True))],
            id="a compare that succeeded twice",
        ),
        pytest.param(
            [(put(b"1"), 0, 1, written(2)), (update(2, b"2"), 2, 9, updated(3, True)),
             (update(2, b"3"), 3, 8, updated(4, True))], id="an update that succeeded twice",
        ),
        pytest.param(
            [(put(b"1"), 0, 1, written(3)), (put(b"2"), 2, 3, written(2))], id="revisions that go back"
        ),
        pytest.param(
            [(put(b"1"), 0, 9, written(2)), (put(b"2"), 1, 8, written(2))], id="a revision of two writes"
        ),
        pytest.param(
            [(put(b"1"), 0, 1, written(2)), (put(b"2"), 2, 3, written(4))], id="a revision of no write"
        ),
        pytest.param(
            [(put(b"1"), 0, 1, written(2)), (DELETE, 2, 3, deleted(3, 0))], id="a deletion that misses"
        ),
        pytest.param(
            [(put(b"1"), 0, NEVER, None), (get(), 2, 3, found(2, kv(b"1", 2))), (get(), 4, 5, found(2))],
            id="a write without an answer that comes and goes",
        ),
        pytest.param(
            [(put(b"1"), 0, NEVER, None), (get(), 2, 3, found(3, kv(b"1", 3, 2, 2)))],
            id="a write without an answer that is done twice",
        ),
        pytest.param(
            [(get(), 0, 1, found(2, kv(b"1", 2))), (put(b"1"), 2, NEVER, None)],
            id="a read of what is not written yet",
        ),
        pytest.param([(get(), 0, 1, "INTERNAL: an error")], id="an error"),
    ],
)  # fmt: skip
def test_there_is_no_order(calls: list[Call]):
    """Answers that no server can have given, one call after the other, are found."""
    with pytest.raises(NotLinearizableError, match="none of these can come next"):
        linearized(history(*calls), State.empty())


@pytest.mark.parametrize(
    ("values", "explained"),
    [([b"1", b"2"], True), ([b"1"], True), ([b"2"], True), ([b"2", b"1"], True), ([b"3"], False),
     ([b"1", b"1"], False), ([b"1", b"2", b"1"], False)],
)  # fmt: skip
def test_the_log_decides_what_became_of_calls_without_answers(values: list[bytes], explained: bool):
    """Each is in the log once or not at all, and nothing else is there."""
    log, state = {}, State.empty()
    for value in values:
        state, _ = state.applied(put(value))
        log[state.revision] = state.items
    calls = history((put(b"1"), 0, NEVER, None), (put(b"2"), 0, NEVER, None))
    if explained:
        assert [call.request.value for call in linearized(calls, State.empty(), log)] == values
    else:
        with pytest.raises(NotLinearizableError):
            linearized(calls, State.empty(), log)


def test_a_log_without_an_answered_write():
    """A write that was answered has to be in the log, at its revision."""
    with pytest.raises(NotLinearizableError):
        linearized(history((put(b"1"), 0, 1, written(2))), State.empty(), {})


def test_many_calls_at_once():
    """States that were seen are not looked at again: twenty calls at the same time are ordered at once."""
    calls = [(put(b"%d" % number), number, 100 + number, written(2 + number)) for number in range(20)]
    reads = [(get(), 50, 99, found(1)) for _ in range(10)]
    assert len(linearized(history(*calls, *reads), State.empty())) == 30
    with pytest.raises(NotLinearizableError):
        linearized(history(*calls, *reads, (get(), 200, 201, found(20))), State.empty())
