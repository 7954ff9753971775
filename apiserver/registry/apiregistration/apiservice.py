"""APIService: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/apiregistration/v1/defaults.go,
k8s.io/kube-aggregator/pkg/apis/apiregistration/validation/validation.go,
k8s.io/kube-aggregator/pkg/registry/apiservice/strategy.go, 1.36.
"""

import copy
from collections.abc import Iterator
from typing import ClassVar

from kubeskew.apimachinery import names
from kubeskew.apimachinery.conditions import new_condition
from kubeskew.apimachinery.field import FieldError, invalid, not_supported, required
from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.registry.defaulting import DefaultingContext, struct
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, SpecKeptStatus
from kubeskew.apiserver.registry.generic.strategy import UPDATE, Check, Strategy, StrategyContext
from kubeskew.apiserver.registry.shared.references import default_service_port
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

_STATUSES = ("True", "False", "Unknown")


def default_api_service(obj: Object, _: DefaultingContext) -> None:
    default_service_port(struct(obj, "spec"))


def api_service_errors(obj: Object) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    group, version = spec.get("group") or "", spec.get("version") or ""
    if not group and version != "v1":
        yield required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    wrong = names.dns1123_subdomain(group) if group else []
    yield from (invalid("spec.group", group, text) for text in wrong)
    yield from (invalid("spec.version", version, text) for text in names.dns1035_label(version))
    yield from _priorities(spec)
    service, bundle = spec.get("service"), spec.get("caBundle")
    if service is None:
        if bundle:
            yield invalid(
                "spec.caBundle",
                f"{_decoded_length(bundle)} bytes",
                "local APIServices may not have a caBundle",
            )
        if spec.get("insecureSkipTLSVerify"):
            yield invalid(
                "spec.insecureSkipTLSVerify", True, "local APIServices may not have insecureSkipTLSVerify"
            )
        return
    yield from _service_errors(service)
    if spec.get("insecureSkipTLSVerify") and bundle:
        yield invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def _priorities(spec: Object) -> Iterator[FieldError]:
    for name, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        value = spec.get(name) or 0
        if not 0 < value <= most:
            yield invalid(f"spec.{name}", value, f"must be positive and less than {most}")


def _service_errors(service: Object) -> Iterator[FieldError]:
    if not service.get("namespace"):
        yield required("spec.service.namespace")
    if not service.get("name"):
        yield required("spec.service.name")
    port = service.get("port") or 0
    wrong = names.port(port)
    if wrong:
        yield invalid("spec.service.port", port, f"port is not valid: {','.join(wrong)}")


def _decoded_length(bundle: str) -> int:
    return len(bundle) * 3 // 4 - bundle.count("=")


def status_errors(obj: Object) -> Iterator[FieldError]:
    for position, condition in enumerate((obj.get("status") or {}).get("conditions") or []):
        if condition.get("status") not in _STATUSES:
            path = f"status.conditions[{position}].status"
            yield not_supported(path, condition.get("status") or "", _STATUSES)


class APIServiceStatus(SpecKeptStatus):
    kept_metadata = ("labels", "annotations", "finalizers", "ownerReferences")
    core_metadata = False

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(status_errors(new))


class APIServiceStrategy(BuiltIn):
    """Local APIServices are available from the start."""

    allow_unconditional_update = False
    update_checks = (Check.METADATA, *UPDATE)
    core_metadata = False
    status: ClassVar[type[Strategy]] = APIServiceStatus

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        if (obj.get("spec") or {}).get("service") is None:
            message = "Local APIServices are always available"
            condition = new_condition("Available", "True", "Local", message, ctx.now)
            obj["status"] = {"conditions": [condition]}

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        new["status"] = copy.deepcopy(old.get("status") or {})

    def metadata_errors(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        wanted = f"{spec.get('version') or ''}.{spec.get('group') or ''}"

        def check(name: str, _: bool) -> list[str]:
            if wrong := names.path_segment(name):
                return wrong
            return [] if name == wanted else [f'must be `spec.version+"."+spec.group`: {quoted(wanted)}']

        return object_meta.validate_object_meta(obj["metadata"], False, check, core=False)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(api_service_errors(obj))


def api_service_cells(subject: Subject) -> Cells:
    service = subject.at("spec", "service")
    available = subject.condition("Available") or {"status": "Unknown"}
    state = available.get("status", "")
    if state != "True" and available.get("reason"):
        state = f"{state} ({available['reason']})"
    local = service is None
    return {
        "Service": "Local" if local else f"{service.get('namespace', '')}/{service.get('name', '')}",
        "Available": state,
    }
