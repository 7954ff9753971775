"""Probes and lifecycle hooks follow these rules.

Source: pkg/apis/core/validation/validation.go (validateProbe, validateHandler, validateLifecycle), 1.36.
"""

from collections.abc import Callable, Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, forbidden, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE
from kubeskew.apiserver.registry.shared.pod_options import PodOptions

_SCHEMES = ("HTTP", "HTTPS")
_NUMBERS = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
)  # fmt: skip
_HANDLERS_OF_PROBES = ("exec", "httpGet", "tcpSocket", "grpc")
_HANDLERS_OF_HOOKS = ("exec", "httpGet", "tcpSocket", "sleep")
_SIGNALS = (
    "ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT", "KILL", "PIPE",
    "POLL", "PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP", "TTIN", "TTOU",
    "URG", "USR1", "USR2", "VTALRM", "WINCH", "XCPU", "XFSZ", "RTMIN", "RTMAX",
    *(f"RTMIN+{number}" for number in range(1, 16)), *(f"RTMAX-{number}" for number in range(1, 15)),
)  # fmt: skip
_LINUX_SIGNALS = tuple(sorted(f"SIG{name}" for name in _SIGNALS))
_WINDOWS_SIGNALS = ("SIGKILL", "SIGTERM")
Rule = Callable[[Object, str], Iterator[FieldError]]


def probe_errors(probe: Object, kind: str, path: str) -> Iterator[FieldError]:
    """`kind`: livenessProbe, readinessProbe or startupProbe."""
    yield from _handler(probe, path, _HANDLERS_OF_PROBES)
    for name in _NUMBERS:
        number = probe.get(name) or 0
        if number < 0:
            yield invalid(child(path, name), number, NOT_NEGATIVE)
    grace, at = probe.get("terminationGracePeriodSeconds"), child(path, "terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield invalid(at, grace, "must be greater than 0")
    if kind == "readinessProbe":
        if grace is not None:
            yield invalid(at, grace, "must not be set for readinessProbes")
    elif (probe.get("successThreshold") or 0) != 1:
        yield invalid(child(path, "successThreshold"), probe.get("successThreshold") or 0, "must be 1")


def lifecycle_errors(
    lifecycle: Object, grace_seconds: int | None, path: str, options: PodOptions, system: str | None
) -> Iterator[FieldError]:
    """`system`: the operating system that the pod names."""
    for name in ("postStart", "preStop"):
        hook = lifecycle.get(name)
        if hook is None:
            continue
        at = child(path, name)
        yield from _handler(hook, at, _HANDLERS_OF_HOOKS)
        alone = next(kind for kind in (*_HANDLERS_OF_HOOKS, "") if not kind or hook.get(kind) is not None)
        if alone == "sleep" and grace_seconds is not None:
            yield from _sleep(hook["sleep"], grace_seconds, child(at, "sleep"), options)
    signal = lifecycle.get("stopSignal")
    if signal is not None:
        yield from _signal(signal, system, child(path, "stopSignal"))


_ZERO_SLEEP = ". Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."


def _sleep(sleep: Object, grace_seconds: int, path: str, options: PodOptions) -> Iterator[FieldError]:
    seconds = sleep.get("seconds") or 0
    least = 0 if options.zero_sleep else 1
    if least <= seconds <= grace_seconds:
        return
    text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
    if not options.zero_sleep:
        text = (
            f"must be greater than 0 and less than terminationGracePeriodSeconds ({grace_seconds})"
            f"{_ZERO_SLEEP if options.features.names_zero_sleep else ''}"
        )
    yield invalid(path, seconds, text)


def _signal(signal: str, system: str | None, path: str) -> Iterator[FieldError]:
    allowed = {"linux": _LINUX_SIGNALS, "windows": _WINDOWS_SIGNALS}.get(system or "")
    if system is None:
        yield forbidden(path, "may not be set for containers with empty `spec.os.name`")
    elif allowed is not None and signal not in allowed:
        yield not_supported(path, signal, allowed)


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
    at = child(path, "httpHeaders")  # upstream names no position
    for header in action.get("httpHeaders") or []:
        name = header.get("name") or ""
        yield from (invalid(at, name, text) for text in names.http_header(name))


def _port(action: Object, path: str) -> Iterator[FieldError]:
    yield from port_reference(action.get("port"), child(path, "port"))


def port_reference(port: int | str | None, path: str) -> Iterator[FieldError]:
    if isinstance(port, str):
        yield from (invalid(path, port, text) for text in names.port_name(port))
    else:
        yield from (invalid(path, port or 0, text) for text in names.port(port or 0))


_HANDLERS: dict[str, Rule] = {"exec": _exec, "httpGet": _http, "tcpSocket": _port, "grpc": _port}
