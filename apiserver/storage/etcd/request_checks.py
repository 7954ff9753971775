"""Requests as they come, and the checks that need no state (server/etcdserver/api/v3rpc/key.go, 3.6)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from kubeskew.apiserver.storage.etcd import errors
from kubeskew.apiserver.storage.etcd.backing import ALL_KEYS
from kubeskew.apiserver.storage.etcd.errors import EtcdError
from kubeskew.apiserver.storage.etcd.messages.rpc_pb2 import (
    DeleteRangeRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    TxnRequest,
)

MAX_REQUEST_BYTES = 3 << 19  # 1.5 MiB
MAX_MESSAGE_BYTES = MAX_REQUEST_BYTES + (512 << 10)  # grpc's limit in etcd
MAX_TXN_OPERATIONS = 128
_SORT_ORDERS = range(3)
_SORT_TARGETS = range(5)

Interval = tuple[bytes, bytes]  # a range as in requests
Request = TypeVar("Request", bound=Message)


def parsed(kind: type[Request], data: bytes) -> Request:
    """Refuses what cannot be parsed as gRPC's server in Go does."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise EtcdError(errors.too_large_message(len(data), MAX_MESSAGE_BYTES))
    try:
        request = kind.FromString(data)
    except DecodeError as error:
        raise EtcdError(errors.MALFORMED) from error
    request.DiscardUnknownFields()
    if request.ByteSize() != len(data) and any(map(_has_misfits, _messages(kind.FromString(data)))):
        raise EtcdError(errors.MALFORMED)
    return request


def _messages(message: Message) -> Iterator[Message]:
    """Yields the message and all those in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in (value,) if isinstance(value, Message) else value:
                yield from _messages(inner)


def _has_misfits(message: Message) -> bool:
    """True if a field has not the type on the wire that it should have: for the library, such a field is one
    that it does not know.
    """
    known = message.DESCRIPTOR.fields_by_number
    fields = UnknownFieldSet(message)
    return any(fields[place].field_number in known for place in range(len(fields)))


def check_range(request: RangeRequest) -> None:
    if not request.key:
        raise EtcdError(errors.EMPTY_KEY)
    if request.sort_order not in _SORT_ORDERS or request.sort_target not in _SORT_TARGETS:
        raise EtcdError(errors.INVALID_SORT_OPTION)


def check_put(request: PutRequest) -> None:
    if not request.key:
        raise EtcdError(errors.EMPTY_KEY)
    if request.ignore_value and request.value:
        raise EtcdError(errors.VALUE_PROVIDED)
    if request.ignore_lease and request.lease:
        raise EtcdError(errors.LEASE_PROVIDED)


def check_delete(request: DeleteRangeRequest) -> None:
    if not request.key:
        raise EtcdError(errors.EMPTY_KEY)


def check_txn(request: TxnRequest, operations: int = MAX_TXN_OPERATIONS) -> None:
    """Each level of nested transactions leaves fewer operations to those below it."""
    _check_operations(request, operations)
    for branch in (request.success, request.failure):
        if len(branch) > 1 or (branch and branch[0].HasField("request_txn")):  # else nothing can meet
            _written(branch)


def _check_operations(request: TxnRequest, allowed: int) -> None:
    count = max(len(request.compare), len(request.success), len(request.failure))
    if count > allowed:
        raise EtcdError(errors.TOO_MANY_OPERATIONS)
    if not all(compare.key for compare in request.compare):
        raise EtcdError(errors.EMPTY_KEY)
    for operations in (request.success, request.failure):
        for operation in operations:
            _check_operation(operation, allowed - count)


def _check_operation(operation: RequestOp, allowed: int) -> None:
    kind = operation.WhichOneof("request")
    if kind == "request_range":
        check_range(operation.request_range)
    elif kind == "request_put":
        check_put(operation.request_put)
    elif kind == "request_delete_range":
        check_delete(operation.request_delete_range)
    elif kind == "request_txn":
        _check_operations(operation.request_txn, allowed)
    else:
        raise EtcdError(errors.KEY_NOT_FOUND)


def _written(operations: Sequence[RequestOp]) -> tuple[set[bytes], list[Interval]]:
    """Puts and deletions of one branch, which must not meet. The branches of one nested transaction exclude
    each other.
    """
    deletions = [
        (operation.request_delete_range.key, operation.request_delete_range.range_end)
        for operation in operations
        if operation.HasField("request_delete_range")
    ]
    puts: set[bytes] = set()
    for operation in operations:
        if operation.HasField("request_txn"):
            then_puts, then_deletions = _written(operation.request_txn.success)
            else_puts, else_deletions = _written(operation.request_txn.failure)
            _add(then_puts, puts, deletions)
            _add(else_puts, puts, deletions, allowed=then_puts)
            deletions += then_deletions + else_deletions
    for operation in operations:
        if operation.HasField("request_put"):
            _add([operation.request_put.key], puts, deletions)
    return puts, deletions


def _add(
    keys: Iterable[bytes],
    puts: set[bytes],
    deletions: Sequence[Interval],
    allowed: Iterable[bytes] = frozenset(),
) -> None:
    for key in sorted(keys):
        if (key in puts and key not in allowed) or any(_contains(interval, key) for interval in deletions):
            raise EtcdError(errors.DUPLICATE_KEY)
        puts.add(key)


def _contains(interval: Interval, key: bytes) -> bool:
    first, end = interval
    if not end:
        return key == first
    return first <= key and (end == ALL_KEYS or key < end)
