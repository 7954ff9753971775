"""Makes the errors that a fault has a call answered with, as an API server words them."""

from collections.abc import Callable, Mapping
from functools import partial

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import GroupResource, StatusError
from kubeskew.apimachinery.faults.calls import Call
from kubeskew.apimachinery.faults.fault import Effect

_LATER = "please try again later"
_UNAVAILABLE = "the server is currently unable to handle the request"


def error_of(effect: Effect, call: Call) -> StatusError:
    """Returns the error of an effect's code for a call; the fault's own message stands in for the usual."""
    resource = GroupResource(call.group, call.resource)
    error = _ERRORS[effect.code](resource, call)
    if effect.message:
        error = StatusError(error.code, error.reason, effect.message, error.details)
    if effect.retry_after is not None:
        error.details = {**(error.details or {}), "retryAfterSeconds": effect.retry_after}
    return error


def _conflict(resource: GroupResource, call: Call) -> StatusError:
    if call.verb != "create" or call.subresource:
        return errors.conflict(resource, call.name, errors.MODIFIED)
    return errors.already_exists(resource, call.name)


def _invalid(resource: GroupResource, call: Call) -> StatusError:
    return StatusError(422, "Invalid", f'{resource} "{call.name}" is invalid')


def _fixed(error: Callable[[], StatusError], _resource: GroupResource, _call: Call) -> StatusError:
    return error()


_ERRORS: Mapping[int, Callable[[GroupResource, Call], StatusError]] = {
    400: partial(_fixed, partial(errors.bad_request, "the request was refused by a fault")),
    401: partial(_fixed, errors.unauthorized),
    403: lambda resource, call: errors.forbidden(resource, call.name, "refused by a fault"),
    404: lambda resource, call: errors.not_found(resource, call.name),
    409: _conflict,
    410: partial(_fixed, partial(errors.expired, "The resourceVersion for the provided watch is too old.")),
    422: _invalid,
    429: partial(_fixed, partial(errors.too_many_requests, _LATER, 1)),
    500: partial(_fixed, partial(errors.internal, "injected by a fault")),
    503: partial(_fixed, partial(errors.service_unavailable, _UNAVAILABLE)),
    504: partial(_fixed, partial(errors.timeout, "request did not complete within the allowed duration")),
}
