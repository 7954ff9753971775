"""Words failed calls as Go's gRPC client does, because kubelets put them into events and logs."""

import re

import grpc
from grpc import aio

UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED

# A failed dial in the words of grpc's C core; Go's client has only the path and the error's text.
_DIAL = re.compile(r"addr: unix:(?P<path>.*) error: (?P<why>[^:]+)$")
_TOO_LONG = re.compile(r"'unix:(?P<path>[^']*)':the target uri is not valid")

# Texts of grpc's C core for a server that died, or that is ending.
_GONE = re.compile(r"Socket closed|^Cancelling all calls$")


class RpcError(Exception):
    """A call that failed, or that its server refuses: `rpc error: code = NotFound desc = …`."""

    def __init__(self, code: grpc.StatusCode, description: str) -> None:
        self.go_code = _go_name(code)
        super().__init__(f"rpc error: code = {self.go_code} desc = {description}")
        self.code = code
        self.description = description


def rpc_error(error: aio.AioRpcError) -> RpcError:
    """Returns the failure in the words of Go's client (grpc-go: clientconn.go, http2_client.go)."""
    description = error.details() or ""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and description == "Deadline Exceeded":
        return RpcError(error.code(), "context deadline exceeded")
    if dial := _DIAL.search(description):
        return _failed_dial(f"dial unix {dial['path']}: connect: {dial['why'].lower()}")
    if too_long := _TOO_LONG.search(description):
        return _failed_dial(f"dial unix {too_long['path']}: connect: invalid argument")
    if error.code() is grpc.StatusCode.UNAVAILABLE and _GONE.search(description):
        return RpcError(error.code(), "error reading from server: EOF")
    return RpcError(error.code(), description)


def unparsable() -> RpcError:
    """Returns the error for an answer that cannot be parsed."""
    text = "grpc: failed to unmarshal the received message: proto: cannot parse invalid wire-format data"
    return RpcError(grpc.StatusCode.INTERNAL, text)


def closing() -> RpcError:
    """Returns the error for a channel that was closed before or during the call."""
    return RpcError(grpc.StatusCode.CANCELLED, "grpc: the client connection is closing")


def _failed_dial(why: str) -> RpcError:
    description = f'connection error: desc = "transport: Error while dialing: {why}"'
    return RpcError(grpc.StatusCode.UNAVAILABLE, description)


def _go_name(code: grpc.StatusCode) -> str:
    """Returns `DeadlineExceeded` for `DEADLINE_EXCEEDED`; Go spells two codes otherwise."""
    names = {grpc.StatusCode.OK: "OK", grpc.StatusCode.CANCELLED: "Canceled"}
    return names.get(code) or "".join(word.capitalize() for word in code.name.split("_"))
