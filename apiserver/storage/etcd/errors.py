"""The errors of etcd's API: gRPC's code and etcd's text (api/v3rpc/rpctypes/error.go, 3.6)."""

from enum import IntEnum
from typing import NamedTuple


class StatusCode(IntEnum):
    """gRPC's codes, of those that are used."""

    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class Refusal(NamedTuple):
    code: StatusCode
    text: str


class EtcdError(Exception):
    """A call is refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.text)
        self.code, self.text = refusal


def _invalid(text: str) -> Refusal:
    return Refusal(StatusCode.INVALID_ARGUMENT, f"etcdserver: {text}")


def _failed(text: str) -> Refusal:
    return Refusal(StatusCode.FAILED_PRECONDITION, f"etcdserver: {text}")


EMPTY_KEY = _invalid("key is not provided")
KEY_NOT_FOUND = _invalid("key not found")
VALUE_PROVIDED = _invalid("value is provided")
LEASE_PROVIDED = _invalid("lease is provided")
TOO_MANY_OPERATIONS = _invalid("too many operations in txn request")
DUPLICATE_KEY = _invalid("duplicate key given in txn request")
INVALID_SORT_OPTION = _invalid("invalid sort option")
REQUEST_TOO_LARGE = _invalid("request is too large")
COMPACTED = Refusal(StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
FUTURE_REVISION = Refusal(StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision")
LEASE_NOT_FOUND = Refusal(StatusCode.NOT_FOUND, "etcdserver: requested lease not found")
LEASE_EXISTS = _failed("lease already exists")
LEASE_TTL_TOO_LARGE = Refusal(StatusCode.OUT_OF_RANGE, "etcdserver: too large lease TTL")
AUTH_NOT_ENABLED = _failed("authentication is not enabled")
ROOT_USER_NOT_EXIST = _failed("root user does not exist")
NOT_CAPABLE = _failed("not capable")
BAD_LEADER_TRANSFEREE = _failed("bad leader transferee")
NO_SPACE = Refusal(StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")
TIMEOUT = Refusal(StatusCode.UNAVAILABLE, "etcdserver: request timed out")
MALFORMED = Refusal(StatusCode.INTERNAL, "grpc: error unmarshalling request: unexpected EOF")


def too_large_message(size: int, limit: int) -> Refusal:
    """Words the refusal as grpc-go does, which reads no message above its limit."""
    text = f"grpc: received message larger than max ({size} vs. {limit})"
    return Refusal(StatusCode.RESOURCE_EXHAUSTED, text)
