"""Rules of probes and lifecycle hooks.

Source: pkg/apis/core/validation/validation.go (validateProbe, validateHandler, validateLifecycle), 1.36.
"""

from collections.abc import Callable, Iterator

from apimachinery.errors import Object
from apimachinery.field import FieldError, child, forbidden, index, invalid, not_supported, required
from apimachinery.validation import names
from apiserver.registry.validation.amounts import NOT_NEGATIVE

_SCHEMES = ("HTTP", "HTTPS")
_NUMBERS = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
)  # fmt: skip
Rule = Callable[[Object, str], Iterator[FieldError]]


def probe_errors(probe: Object, path: str) -> Iterator[FieldError]:
    yield from _handler(probe, path, ("exec", "httpGet", "tcpSocket", "grpc"))
    for name in _NUMBERS:
        number = probe.get(name) or 0
        if number < 0:
            yield invalid(child(path, name), number, NOT_NEGATIVE)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield invalid(child(path, "terminationGracePeriodSeconds"), grace, "must be greater than 0")


def lifecycle_errors(lifecycle: Object, grace_seconds: int, path: str) -> Iterator[FieldError]:
    for name in ("postStart", "preStop"):
        hook = lifecycle.get(name)
        if hook is None:
            continue
        at = child(path, name)
        yield from _handler(hook, at, ("exec", "httpGet", "tcpSocket", "sleep"))
        sleep = hook.get("sleep")
        if sleep is not None:
            seconds = sleep.get("seconds") or 0
            if not 0 <= seconds <= grace_seconds:
                text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
                yield invalid(child(at, "sleep"), seconds, text)


def _handler(handler: Object, path: str, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    used = [name for name in allowed if handler.get(name) is not None]
    for position, name in enumerate(used):
        if position:
            yield forbidden(child(path, name), "may not specify more than 1 handler type")
        elif name in _HANDLERS:
            yield from _HANDLERS[name](handler[name], child(path, name))
    if not used:
        yield required(path, "must specify a handler type")


def _exec(action: Object, path: str) -> Iterator[FieldError]:
    if not action.get("command"):
        yield required(child(path, "command"))


def _http(action: Object, path: str) -> Iterator[FieldError]:
    if not action.get("path"):
        yield required(child(path, "path"))
    yield from port_reference(action.get("port"), child(path, "port"))
    if action.get("scheme") not in _SCHEMES:
        yield not_supported(child(path, "scheme"), action.get("scheme") or "", _SCHEMES)
    for position, header in enumerate(action.get("httpHeaders") or []):
        at = child(index(child(path, "httpHeaders"), position), "name")
        name = header.get("name") or ""
        yield from (invalid(at, name, text) for text in names.http_header(name))


def _tcp(action: Object, path: str) -> Iterator[FieldError]:
    yield from port_reference(action.get("port"), child(path, "port"))


def _grpc(action: Object, path: str) -> Iterator[FieldError]:
    yield from port_reference(action.get("port"), child(path, "port"))


def port_reference(port: int | str | None, path: str) -> Iterator[FieldError]:
    """A number, or the name of a port."""
    if isinstance(port, str):
        yield from (invalid(path, port, text) for text in names.port_name(port))
    else:
        yield from (invalid(path, port or 0, text) for text in names.port(port or 0))


_HANDLERS: dict[str, Rule] = {"exec": _exec, "httpGet": _http, "tcpSocket": _tcp, "grpc": _grpc}
