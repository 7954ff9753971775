"""`request`: one request of any kind, and the whole answer: its status, its warnings and its body."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, JSON
from kubeskew.apimachinery.objects import Object
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.errors import StepError
from kubeskew.conformance.matching import mismatches
from kubeskew.conformance.operations.outputs import bind_outputs
from kubeskew.conformance.scenario import Operation

_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


async def request(ctx: CellContext, operation: Operation) -> None:
    """Send once and compare: `request: {path: /api/v1/nodes, accept: …, answer: {status: 200, body: {…}}}`.

    `method` is GET if it is left out; a `body` goes as `contentType`, JSON if that is left out, too. The
    answer has `status`, `warnings` (their texts) and `body`, parsed if it is JSON. An error is an answer.
    """
    asked = {key: value for key, value in operation.body.items() if key not in ("answer", "outputs")}
    body: Mapping[str, Any] = bind(asked, ctx.bindings)
    method, path = str(body.get("method", "GET")), str(body["path"])
    try:
        status, headers, content = await ctx.client.exchange(
            method,
            path,
            body=body.get("body"),
            content_type=str(body.get("contentType", JSON)),
            accept=str(body.get("accept", JSON)),
        )
    except CONNECTION_ERRORS as error:
        raise StepError(f"an answer of {method} {path}", f"{type(error).__name__}: {error}") from error
    found = _answer(status, headers, content)
    if wrong := [*mismatches(operation.body.get("answer") or {"status": 200}, found, ctx.bindings)]:
        said = found["body"].get("message", "") if isinstance(found["body"], dict) else ""
        told = f" ({status} {said})" if status >= 400 else ""
        raise StepError(f"{method} {path} to be answered as the file says", "; ".join(wrong) + told)
    bind_outputs(ctx, operation, found)


def _answer(status: int, headers: Mapping[str, str], content: bytes) -> Object:
    try:
        body: Any = orjson.loads(content)
    except orjson.JSONDecodeError:
        body = content.decode(errors="replace")
    texts = (_ESCAPED.sub(r"\1", text) for text in _WARNING.findall(headers.get("Warning") or ""))
    return {"status": status, "warnings": [*texts], "body": body}
