"""Reads the scheduler's configuration file: `kubescheduler.config.k8s.io/v1`, KubeSchedulerConfiguration.

Source: k8s.io/kubernetes/pkg/scheduler/apis/config/validation, 1.36.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kubeskew.apimachinery import field
from kubeskew.apimachinery.client.leader import LeaseTiming
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.golang.yaml_body import YAMLBodyError, load
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.profile import DEFAULT_SCHEDULER_NAME
from kubeskew.scheduler.settings import (
    EXTENSION_POINTS,
    INITIAL_BACKOFF_SECONDS,
    MAX_BACKOFF_SECONDS,
    MULTI_POINT,
    Backoff,
    ConfigurationError,
    LeaderElection,
    PluginRef,
    PluginSet,
    ProfileSettings,
    SchedulerSettings,
    parse_duration,
)

_GROUP, _VERSION, _KIND = "kubescheduler.config.k8s.io", "v1", "KubeSchedulerConfiguration"
_API_VERSION = f"{_GROUP}/{_VERSION}"
_FIELDS = {
    "": {
        "apiVersion", "kind", "parallelism", "leaderElection", "clientConnection", "enableProfiling",
        "enableContentionProfiling", "percentageOfNodesToScore", "podInitialBackoffSeconds",
        "podMaxBackoffSeconds", "profiles", "extenders", "delayCacheUntilActive",
    },
    "leaderElection": {
        "leaderElect", "leaseDuration", "renewDeadline", "retryPeriod", "resourceLock", "resourceName",
        "resourceNamespace",
    },
    "profile": {"schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"},
    "plugins": {*EXTENSION_POINTS, MULTI_POINT},
}  # fmt: skip


def read_file(path: Path) -> SchedulerSettings:
    """Raises ConfigurationError, also for a file that cannot be opened."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"open {path}: {(error.strerror or '').lower()}") from error
    return read(text)


def read(text: bytes) -> SchedulerSettings:
    """Raises ConfigurationError with upstream's text."""
    try:
        document, repeated = load(text)
    except YAMLBodyError as error:
        raise ConfigurationError(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(document, dict):
        raise ConfigurationError("couldn't get version/kind; json parse error: not an object")
    kind, version = document.get("kind") or "", document.get("apiVersion") or ""
    if not kind:
        raise ConfigurationError("Object 'Kind' is missing in configuration")
    if not version.startswith(f"{_GROUP}/"):
        raise ConfigurationError(f"couldn't decode as KubeSchedulerConfiguration, got {version}, Kind={kind}")
    if (version, kind) != (_API_VERSION, _KIND):
        raise ConfigurationError(f'no kind "{kind}" is registered for version "{version}"')
    if repeated:
        raise ConfigurationError(f"strict decoding error: {', '.join(repeated)}")
    _refuse_unknown(document)
    errors = [*_validate(document)]
    if errors:
        raise ConfigurationError(_aggregate(errors))
    return _settings(document)


def _refuse_unknown(document: Object) -> None:
    unknown = [*_unknown("", "", document)]
    unknown += _unknown("leaderElection.", "leaderElection", document.get("leaderElection") or {})
    for index, profile in enumerate(document.get("profiles") or ()):
        path = f"profiles[{index}]."
        unknown += _unknown(path, "profile", profile)
        unknown += _unknown(f"{path}plugins.", "plugins", profile.get("plugins") or {})
    if unknown:
        listed = ", ".join(f'unknown field "{name}"' for name in unknown)
        raise ConfigurationError(f"strict decoding error: {listed}")


def _unknown(path: str, kind: str, obj: Mapping[str, Any]) -> Iterable[str]:
    return (f"{path}{name}" for name in obj if name not in _FIELDS[kind])


def _validate(document: Object) -> Iterable[FieldError]:
    parallelism = document.get("parallelism", 16)
    if parallelism <= 0:
        yield field.invalid("parallelism", parallelism, "should be an integer value greater than zero")
    profiles = document.get("profiles")
    if profiles is not None and not profiles:
        yield field.required("profiles")
    seen: set[str] = set()
    for index, profile in enumerate(profiles or ()):
        path = field.index("profiles", index)
        name = profile.get("schedulerName") or (DEFAULT_SCHEDULER_NAME if len(profiles or ()) == 1 else "")
        if not name:
            yield field.required(f"{path}.schedulerName")
        elif name in seen:
            yield field.duplicate(f"{path}.schedulerName", name)
        seen.add(name)
        yield from _validate_percentage(f"{path}.percentageOfNodesToScore", profile)
    yield from _validate_percentage("percentageOfNodesToScore", document)
    initial = document.get("podInitialBackoffSeconds", INITIAL_BACKOFF_SECONDS)
    longest = document.get("podMaxBackoffSeconds", MAX_BACKOFF_SECONDS)
    if initial <= 0:
        yield field.invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield field.invalid("podMaxBackoffSeconds", longest, detail)


def _validate_percentage(path: str, obj: Object) -> Iterable[FieldError]:
    percentage = obj.get("percentageOfNodesToScore")
    if percentage is not None and not 0 <= percentage <= 100:
        yield field.invalid(path, percentage, "not in valid range [0-100]")


def _aggregate(errors: list[FieldError]) -> str:
    texts = [*dict.fromkeys(map(str, errors))]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _settings(document: Object) -> SchedulerSettings:
    profiles = tuple(map(_profile, document.get("profiles") or ({},)))
    backoff = Backoff(
        float(document.get("podInitialBackoffSeconds", INITIAL_BACKOFF_SECONDS)),
        float(document.get("podMaxBackoffSeconds", MAX_BACKOFF_SECONDS)),
    )
    election = _leader_election(document.get("leaderElection") or {})
    return SchedulerSettings(profiles, document.get("percentageOfNodesToScore") or 0, backoff, election)


def _profile(profile: Object) -> ProfileSettings:
    plugins = {point: _plugin_set(found) for point, found in (profile.get("plugins") or {}).items()}
    arguments = {config["name"]: config.get("args") or {} for config in profile.get("pluginConfig") or ()}
    name = profile.get("schedulerName") or DEFAULT_SCHEDULER_NAME
    return ProfileSettings(name, profile.get("percentageOfNodesToScore"), plugins, arguments)


def _plugin_set(found: Object | None) -> PluginSet:
    enabled = (found or {}).get("enabled") or ()
    disabled = (found or {}).get("disabled") or ()
    return PluginSet(
        tuple(PluginRef(plugin["name"], plugin.get("weight") or 0) for plugin in enabled),
        frozenset(plugin["name"] for plugin in disabled),
    )


def _leader_election(found: Object) -> LeaderElection:
    lock = found.get("resourceLock") or "leases"
    if lock != "leases":
        detail = 'resourceLock value must be "leases"'
        raise ConfigurationError(str(field.invalid("leaderElection.resourceLock", lock, detail)))
    default = LeaderElection()
    timing = LeaseTiming(
        _seconds(found.get("leaseDuration"), default.timing.lease_duration),
        _seconds(found.get("renewDeadline"), default.timing.renew_deadline),
        _seconds(found.get("retryPeriod"), default.timing.retry_period),
    )
    if timing.lease_duration <= timing.renew_deadline:
        detail = "LeaseDuration must be greater than RenewDeadline"
        path, shown = "leaderElection.leaseDuration", f"{timing.lease_duration:g}s"
        raise ConfigurationError(str(field.invalid(path, shown, detail)))
    return LeaderElection(
        found.get("leaderElect"),
        found.get("resourceName") or default.resource_name,
        found.get("resourceNamespace") or default.resource_namespace,
        timing,
    )


def _seconds(value: Any, default: float) -> float:
    return default if value is None else parse_duration(str(value))
