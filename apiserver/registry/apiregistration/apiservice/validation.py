"""Holds the rules of APIServices.

Source: k8s.io/kube-aggregator/pkg/apis/apiregistration/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object

_STATUSES = ("True", "False", "Unknown")


def api_service_errors(obj: Object) -> Iterator[FieldError]:
    """Checks an APIService."""
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name") or ""
    group, version = spec.get("group") or "", spec.get("version") or ""
    wanted = f"{version}.{group}"
    if name and name != wanted and not names.path_segment(name):  # else that is all that is told of it
        yield invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{wanted}"')
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
    """Checks the conditions of an APIService."""
    for position, condition in enumerate((obj.get("status") or {}).get("conditions") or []):
        if condition.get("status") not in _STATUSES:
            path = f"status.conditions[{position}].status"
            yield not_supported(path, condition.get("status") or "", _STATUSES)
