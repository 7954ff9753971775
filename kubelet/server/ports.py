"""Serves the ports of fake pods: a small HTTP server, which echoes other protocols.

A port answers if a running container declares it; in a pod that declares none, every port does.
"""

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.server.view import NodeView

Read = Callable[[], Awaitable[bytes]]
Write = Callable[[bytes], Awaitable[None]]

_HTTP = re.compile(rb"[A-Z]+ \S* HTTP/1\.[01]\r?\n")
_HTTP_BEGINNING = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE) ")
_LARGEST_HEAD = 1 << 16


def listens(view: NodeView, pod: Object, port: int) -> bool:
    """Returns whether the pod answers at a port."""
    sandbox = view.runtime.sandbox(pod_spec.uid_of(pod))
    if sandbox is None or not sandbox.running(view.clock.now()):
        return False
    declared = {
        int(declared["containerPort"])
        for spec in pod_spec.containers(pod)
        for declared in spec.get("ports") or []
    }
    return not declared or port in declared


def respond(pod: Object, method: str, target: str, body: bytes = b"") -> bytes:
    """Answers an HTTP request for a fake container: its name and the request."""
    answer = {
        "pod": pod_spec.name_of(pod),
        "namespace": pod_spec.namespace_of(pod),
        "node": pod["spec"].get("nodeName", ""),
        "method": method,
        "path": target,
    }
    if body:
        answer["body"] = body.decode("utf-8", "replace")
    return orjson.dumps(answer) + b"\n"


class _Asked(NamedTuple):
    """An HTTP request; `last` if the connection ends with its answer."""

    method: str
    target: str
    body: bytes
    last: bool


async def serve_connection(pod: Object, read: Read, write: Write) -> None:
    """Serves one connection until the client ends it, or asks for its end."""
    held = b""
    while True:
        data = await read()
        if not data:
            return
        held += data
        if not _HTTP_BEGINNING.match(held):
            await write(held)
            held = b""
            continue
        while (found := _request(held)) is not None:
            asked, held = found
            content = respond(pod, asked.method, asked.target, asked.body)
            head = (
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nServer: kubeskew\r\n"
                f"Content-Length: {len(content)}\r\n"
            )
            head += "Connection: close\r\n\r\n" if asked.last else "\r\n"
            await write(head.encode() + (b"" if asked.method == "HEAD" else content))
            if asked.last:
                return
        if len(held) > _LARGEST_HEAD:
            return


def _request(data: bytes) -> tuple[_Asked, bytes] | None:
    """Returns a request and the bytes after it; None until it is complete."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end or not _HTTP.match(data):
        return None
    length = re.search(rb"(?i)\r\ncontent-length:\s*(\d+)", head)
    size = int(length[1]) if length else 0
    if len(rest) < size:
        return None
    method, target, version = head.split(b"\r\n")[0].decode("latin-1").split(" ")[:3]
    listed = re.findall(rb"(?i)\r\nconnection:([^\r\n]*)", head)
    options = {option.strip().lower() for option in b",".join(listed).split(b",")}
    last = b"close" in options or (version == "HTTP/1.0" and b"keep-alive" not in options)
    return _Asked(method, target, rest[:size], last), rest[size:]
