"""Serves the ports of fake pods: by the program that listens there, or by a small HTTP server in its place.

What runs in most images is not known. A port of such a pod answers if a running container declares it, or if
none is declared: it tells what was asked, in JSON, and echoes other protocols.
"""

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.network import HTTPAnswer, HTTPRequest, header_lines
from kubeskew.kubelet.server.view import NodeView

Read = Callable[[], Awaitable[bytes]]
Write = Callable[[bytes], Awaitable[None]]

_HTTP = re.compile(rb"[A-Z]+ \S* HTTP/1\.[01]\r?\n")
_HTTP_BEGINNING = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE) ")
_LARGEST_HEAD = 1 << 16


class PodPort(NamedTuple):
    """A port of a running pod that answers."""

    pod: Object
    answer: Callable[[HTTPRequest], HTTPAnswer]
    echoes: bool  # what is no HTTP; else it is a bad request


def port_of(view: NodeView, pod: Object, port: int) -> PodPort | None:
    """Returns a port of a pod; None if nobody answers there."""
    sandbox = view.runtime.sandbox(pod_spec.uid_of(pod))
    if sandbox is None or not sandbox.running(view.clock.now()):
        return None
    listens = view.runtime.listens(sandbox, port)
    if listens:
        return PodPort(pod, lambda request: view.runtime.ask(sandbox, port, request) or _GONE, echoes=False)
    if listens is False or not _is_declared(pod, port):
        return None
    return PodPort(pod, lambda request: _told(pod, request), echoes=True)


def _is_declared(pod: Object, port: int) -> bool:
    """Returns whether a container has the port, or none has any."""
    declared = {
        int(declared["containerPort"])
        for spec in pod_spec.containers(pod)
        for declared in spec.get("ports") or []
    }
    return not declared or port in declared


_GONE = HTTPAnswer(502, "Bad Gateway", {"Server": "kubeskew"}, b"")  # it ended since it was looked for


def _told(pod: Object, request: HTTPRequest) -> HTTPAnswer:
    """Answers for a fake container: its name and the request."""
    answer = {
        "pod": pod_spec.name_of(pod),
        "namespace": pod_spec.namespace_of(pod),
        "node": pod["spec"].get("nodeName", ""),
        "method": request.method,
        "path": request.target,
    }
    if request.body:
        answer["body"] = request.body.decode("utf-8", "replace")
    headers = {"Content-Type": "application/json", "Server": "kubeskew"}
    return HTTPAnswer(200, "OK", headers, orjson.dumps(answer) + b"\n")


class _Asked(NamedTuple):
    """An HTTP request; `last` if the connection ends with its answer."""

    request: HTTPRequest
    last: bool


async def serve_connection(port: PodPort, read: Read, write: Write) -> None:
    """Serves one connection until the client ends it, or asks for its end."""
    held = b""
    while True:
        data = await read()
        if not data:
            return
        held += data
        if not _HTTP_BEGINNING.match(held):
            if not port.echoes:
                line = held.split(b"\n")[0].decode("latin-1").strip()
                await _answer(port, _Asked(HTTPRequest("", line, version=""), last=True), write)
                return
            await write(held)
            held = b""
            continue
        while (found := _request(held)) is not None:
            asked, held = found
            await _answer(port, asked, write)
            if asked.last:
                return
        if len(held) > _LARGEST_HEAD:
            return


async def _answer(port: PodPort, asked: _Asked, write: Write) -> None:
    answer = port.answer(asked.request)
    head = "".join(f"{line}\r\n" for line in header_lines(answer, last=asked.last))
    body = b"" if asked.request.method == "HEAD" else answer.body
    await write(f"{head}\r\n".encode("latin-1") + body)


def _request(data: bytes) -> tuple[_Asked, bytes] | None:
    """Returns a request and the bytes after it; None until it is complete."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end or not _HTTP.match(data):
        return None
    length = re.search(rb"(?i)\r\ncontent-length:\s*(\d+)", head)
    size = int(length[1]) if length else 0
    if len(rest) < size:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, version = first.split(" ")[:3]
    headers = [line.partition(":")[::2] for line in lines]
    pairs = tuple((name.strip(), value.strip()) for name, value in headers)
    listed = [value for name, value in pairs if name.lower() == "connection"]
    options = {option.strip().lower() for option in ",".join(listed).split(",")}
    last = "close" in options or (version == "HTTP/1.0" and "keep-alive" not in options)
    return _Asked(HTTPRequest(method, target, pairs, rest[:size], version=version), last), rest[size:]
