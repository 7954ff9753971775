"""API errors: one exception that carries a `Status`, and a constructor per reason.

The code that raises an error names the reason; the HTTP front alone decides how it is written.

Source: k8s.io/apimachinery/pkg/api/errors/errors.go, 1.36.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kubeskew.apimachinery.field import FieldError, listed
from kubeskew.apimachinery.objects import Object


class GroupResource(NamedTuple):
    """`deployments.apps`; the core group is empty."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupKind(NamedTuple):
    """`Deployment.apps`; the core group is empty."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class StatusError(Exception):
    """An answer of the API that is not a success."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> Object:
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status

    @classmethod
    def from_status(cls, status: Object) -> "StatusError":
        """Reads a server's `Status` body; a missing code counts as 500."""
        return cls(
            int(status.get("code") or 500),
            status.get("reason") or "",
            status.get("message") or "",
            status.get("details"),
        )

    @property
    def retry_after(self) -> int | None:
        """Seconds after which the client may try again; None if the error names none."""
        return (self.details or {}).get("retryAfterSeconds")


def _of_resource(resource: GroupResource, name: str) -> Object:
    details: Object = {"name": name, "group": resource.group, "kind": resource.resource}
    return {key: value for key, value in details.items() if value}


def not_found(resource: GroupResource, name: str) -> StatusError:
    message = f'{resource} "{name}" not found'
    return StatusError(404, "NotFound", message, _of_resource(resource, name))


def unknown_path() -> StatusError:
    message = "the server could not find the requested resource"
    return StatusError(404, "NotFound", message, {})


def unknown_method() -> StatusError:
    """405 of upstream's router: the path is served, but not by that method."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def already_exists(resource: GroupResource, name: str) -> StatusError:
    message = f'{resource} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, _of_resource(resource, name))


def conflict(resource: GroupResource, name: str, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, _of_resource(resource, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(kind: GroupKind, name: str, errors: Sequence[FieldError]) -> StatusError:
    """422 with one cause per error; exact repeats are shown once in the message."""
    details: Object = {"name": name, "group": kind.group, "kind": kind.kind}
    details = {key: value for key, value in details.items() if value}
    details["causes"] = [error.cause() for error in errors]
    return StatusError(422, "Invalid", f'{kind} "{name}" is invalid: {listed(errors)}', details)


def forbidden(resource: GroupResource, name: str, why: str) -> StatusError:
    if not resource.resource:
        message = f"forbidden: {why}"
    elif name:
        message = f'{resource} "{name}" is forbidden: {why}'
    else:
        message = f"{resource} is forbidden: {why}"
    return StatusError(403, "Forbidden", message, _of_resource(resource, name))


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def method_not_supported(resource: GroupResource, action: str) -> StatusError:
    message = f'{action} is not supported on resources of kind "{resource}"'
    return StatusError(405, "MethodNotAllowed", message, _of_resource(resource, ""))


def not_acceptable(message: str) -> StatusError:
    return StatusError(406, "NotAcceptable", message, {})


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    message = (
        "the body of the request was in an unknown format - "
        f"accepted media types include: {', '.join(accepted)}"
    )
    return StatusError(415, "UnsupportedMediaType", message, {})


def entity_too_large(limit: int) -> StatusError:
    message = f"Request entity too large: limit is {limit}"
    return StatusError(413, "RequestEntityTooLarge", message, {})


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def too_large_resource_version(asked: int, current: int, retry_after_seconds: int = 1) -> StatusError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    error = timeout(f"Too large resource version: {asked}, current: {current}", retry_after_seconds)
    error.details = {"causes": [cause], **(error.details or {})}
    return error


def timeout(why: str, retry_after_seconds: int = 0) -> StatusError:
    details = {"retryAfterSeconds": retry_after_seconds} if retry_after_seconds else {}
    return StatusError(504, "Timeout", f"Timeout: {why}", details)


def too_many_requests(why: str, retry_after_seconds: int) -> StatusError:
    details = {"retryAfterSeconds": retry_after_seconds}
    return StatusError(429, "TooManyRequests", f"Too many requests: {why}", details)


def retry_later(message: str, retry_after_seconds: int) -> StatusError:
    """A 429 in its own words (`apierrors.NewTooManyRequests`)."""
    return StatusError(429, "TooManyRequests", message, {"retryAfterSeconds": retry_after_seconds})


def service_unavailable(message: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", message)


def internal(message: str) -> StatusError:
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details)


def is_reason(error: BaseException, reason: str) -> bool:
    return isinstance(error, StatusError) and error.reason == reason
