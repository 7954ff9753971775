"""Reads refusals: answers of an API server, or of something in front of it, that are no success."""

import orjson

from kubeskew.apimachinery.client.transport import Response
from kubeskew.apimachinery.errors import StatusError

# Reasons for answers that carry no Status (client-go, NewGenericServerResponse).
_REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
            405: "MethodNotAllowed", 406: "NotAcceptable", 409: "Conflict", 410: "Gone",
            415: "UnsupportedMediaType", 422: "Invalid", 429: "TooManyRequests",
            503: "ServiceUnavailable", 504: "Timeout"}  # fmt: skip


def retry_after(response: Response) -> float | None:
    """Returns the seconds of Retry-After, if the answer has it (429 and 5xx, as client-go)."""
    if response.status != 429 and response.status < 500:
        return None
    text = response.headers.get("Retry-After") or ""
    return float(text) if text.isdigit() else None


async def failure(response: Response) -> StatusError:
    """Returns the error that a refusal is, and closes it."""
    try:
        content = await response.body()
    finally:
        await response.close()
    try:
        status = orjson.loads(content)
    except orjson.JSONDecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return StatusError.from_status(status)
    text = content.decode(errors="replace").strip() or "unknown"
    return StatusError(response.status, _REASONS.get(response.status, "InternalError"), text)
