"""CSIDriver: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/storage/v1/defaults.go, pkg/apis/storage/validation/validation.go,
pkg/registry/storage/csidriver/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, child, duplicate, index, invalid, not_supported
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.strategy import Check, StrategyContext
from kubeskew.apiserver.registry.tables.cells import NONE, UNSET, Cells, Subject, joined

_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")

_MODES = ("Persistent", "Ephemeral")

_LEAST_TOKEN_SECONDS = 600

_MOST_TOKEN_SECONDS = 1 << 32

_LEAST_PERIOD = 10
_TOKENS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent "
    "possible logging of tokens in volume attributes"
)


def default_csi_driver(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(
        spec,
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
    )
    fill(spec, volumeLifecycleModes=["Persistent"])
    if ctx.features.volumes.selinux_mounts:
        fill_null(spec, seLinuxMount=False)
    if ctx.features.volumes.limit_scaling:
        fill_null(spec, preventPodSchedulingIfMissing=False)


def driver_errors(spec: Object) -> Iterator[FieldError]:
    policy = spec.get("fsGroupPolicy")
    if policy is not None and policy not in _GROUP_POLICIES:
        yield not_supported("spec.fsGroupPolicy", policy, _GROUP_POLICIES)
    yield from _token_errors(spec.get("tokenRequests") or [], "spec.tokenRequests")
    for mode in spec.get("volumeLifecycleModes") or []:
        if mode not in _MODES:
            yield not_supported("spec.volumeLifecycleModes", mode, _MODES)
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < _LEAST_PERIOD:
        text = "must be greater than or equal to 10 seconds"
        yield invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text)
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield invalid("spec.serviceAccountTokenInSecrets", in_secrets, text)


def _token_errors(requests: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, request in enumerate(requests):
        at, audience = index(path, position), request.get("audience") or ""
        if audience in seen:
            yield duplicate(child(at, "audience"), audience)
            continue
        seen.add(audience)
        seconds, at = request.get("expirationSeconds"), child(at, "expirationSeconds")
        if seconds is not None and seconds < _LEAST_TOKEN_SECONDS:
            yield invalid(at, seconds, "may not specify a duration less than 10 minutes")
        if seconds is not None and seconds > _MOST_TOKEN_SECONDS:
            yield invalid(at, seconds, "may not specify a duration larger than 2^32 seconds")


def driver_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = (driver.get("spec") or {} for driver in (new, old))
    if after.get("attachRequired") != before.get("attachRequired"):
        yield invalid("spec.attachedRequired", after.get("attachRequired"), IMMUTABLE)
    if (after.get("volumeLifecycleModes") or []) != (before.get("volumeLifecycleModes") or []):
        yield invalid("spec.volumeLifecycleModes", after.get("volumeLifecycleModes"), IMMUTABLE)


class CSIDriverStrategy(HandwrittenBuiltIn, ReturnsDeletedObject):
    update_checks = (Check.METADATA_CHANGE, Check.OWN_RULES, Check.CHANGE)
    allow_unconditional_update = False
    first_generation = 0

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        spec = obj.get("spec") or {}
        wanted = spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None
        return [_TOKENS] if ctx.features.volumes.tokens_in_secrets and wanted else []

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        after, before = ((driver.get("spec") or {}).get("tokenRequests") or [] for driver in (new, old))
        return self.warnings(new, ctx) if after != before else []

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(driver_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(driver_update_errors(new, old))


def csi_driver_cells(subject: Subject) -> Cells:
    attach, tokens = subject.at("spec", "attachRequired"), subject.at("spec", "tokenRequests")
    audiences = joined([token.get("audience", "") for token in tokens or ()])
    return {
        "AttachRequired": True if attach is None else attach,
        "PodInfoOnMount": bool(subject.at("spec", "podInfoOnMount")),
        "StorageCapacity": bool(subject.at("spec", "storageCapacity")),
        "TokenRequests": UNSET if tokens is None else audiences,
        "RequiresRepublish": bool(subject.at("spec", "requiresRepublish")),
        "Modes": joined(subject.items("spec", "volumeLifecycleModes"), NONE),
    }
