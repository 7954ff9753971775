"""Ingress: validation, strategy and cells of tables.

Sources: pkg/apis/networking/validation/validation.go, pkg/registry/networking/ingress/strategy.go, 1.36.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, index, invalid, not_supported, required
from kubeskew.apimachinery.golang.roundtrip import given
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, SpecKeptStatus, WithGeneration
from kubeskew.apiserver.registry.generic.strategy import Check, Strategy, StrategyContext
from kubeskew.apiserver.registry.shared import addresses, formats
from kubeskew.apiserver.registry.shared.references import reference_errors
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject, joined, load_balancers

CLASS_ANNOTATION = "kubernetes.io/ingress.class"

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")

_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")

_BAD_SUFFIXES = ("/..", "/.")

_NO_IP = "must be a DNS name, not an IP address"
_MOST_HOSTS = 3


@dataclass(frozen=True, slots=True)
class IngressValidationOptions:
    """An older object was allowed these errors, and so may keep them."""

    secret_names: bool = False
    wildcard_rules: bool = False
    relaxed_services: bool = False
    reference_texts: bool = False  # errors of references to resources say what is required

    @classmethod
    def of(cls, old: Object | None, *, relaxed: bool, texts: bool) -> "IngressValidationOptions":
        """`relaxed`: services may have any label as name (gate RelaxedServiceNameValidation); `texts`: the
        texts of the release."""
        spec = (old or {}).get("spec") or {}
        rules = spec.get("rules") or []
        secrets = [tls.get("secretName") or "" for tls in spec.get("tls") or []]
        return cls(
            any(name and names.dns1123_subdomain(name) for name in secrets),
            any("*" in (rule.get("host") or "") and any(_rule(rule, "", cls())) for rule in rules),
            relaxed or any(_is_relaxed(name) for name in _services(spec)),
            texts,
        )


def _services(spec: Object) -> Iterator[str]:
    paths = [path for rule in spec.get("rules") or [] for path in (rule.get("http") or {}).get("paths") or []]
    for backend in (spec.get("defaultBackend") or {}, *(path.get("backend") or {} for path in paths)):
        if backend.get("service") is not None:
            yield backend["service"].get("name") or ""


def _is_relaxed(name: str) -> bool:
    return not names.dns1123_label(name) and bool(names.dns1035_label(name))


def spec_errors(spec: Object, path: str, lenient: IngressValidationOptions) -> Iterator[FieldError]:
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        yield invalid(path, given(spec, "rules"), "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        yield from _backend(backend, child(path, "defaultBackend"), lenient)
    for position, rule in enumerate(rules):
        yield from _host_rule(rule, index(child(path, "rules"), position), lenient)
    for position, tls in enumerate(spec.get("tls") or []):
        yield from _tls(tls, index(child(path, "tls"), position), lenient)
    name = spec.get("ingressClassName")
    if name is not None:
        at = child(path, "ingressClassName")
        yield from (invalid(at, name, text) for text in names.dns1123_subdomain(name))


def class_annotation_errors(obj: Object) -> Iterator[FieldError]:
    named = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    name = (obj.get("spec") or {}).get("ingressClassName")
    if named is not None and name is not None and named != name:
        text = "must match `ingressClassName` when both are specified"
        yield invalid(child("annotations", CLASS_ANNOTATION), named, text)


def _host_rule(rule: Object, path: str, lenient: IngressValidationOptions) -> Iterator[FieldError]:
    host, at = rule.get("host") or "", child(path, "host")
    if host and addresses.parse(host) is not None:
        yield invalid(at, host, _NO_IP)
    if host:
        yield from (invalid(at, host, text) for text in _host_texts(host))
    if "*" not in host or not lenient.wildcard_rules:
        yield from _rule(rule, path, lenient)


def _host_texts(host: str) -> list[str]:
    return formats.wildcard_subdomain(host) if "*" in host else names.dns1123_subdomain(host)


def _rule(rule: Object, path: str, lenient: IngressValidationOptions) -> Iterator[FieldError]:
    http = rule.get("http")
    if http is None:
        return
    at = child(child(path, "http"), "paths")
    if not http.get("paths"):
        yield required(at)
    for position, http_path in enumerate(http.get("paths") or []):
        yield from _path(http_path, index(at, position), lenient)


def _path(one: Object, path: str, lenient: IngressValidationOptions) -> Iterator[FieldError]:
    kind, value, at = one.get("pathType"), one.get("path") or "", child(path, "path")
    if kind is None:
        yield required(child(path, "pathType"), "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield not_supported(child(path, "pathType"), kind, _PATH_TYPES)
    elif not value.startswith("/") and (value or kind != "ImplementationSpecific"):
        yield invalid(at, value, "must be an absolute path")
    if kind in {"Exact", "Prefix"}:
        for part in _BAD_SEQUENCES:
            if part in value:
                yield invalid(at, value, f"must not contain '{part}'")
        for part in _BAD_SUFFIXES:
            if value.endswith(part):
                yield invalid(at, value, f"cannot end with '{part}'")
    yield from _backend(one.get("backend") or {}, child(path, "backend"), lenient)


def _backend(backend: Object, path: str, lenient: IngressValidationOptions) -> Iterator[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from reference_errors(resource, child(path, "resource"), texts=lenient.reference_texts)
    elif service is not None:
        yield from _service(service, path, lenient)
    else:
        yield invalid(path, "", "resource or service backend is required")


def _service(service: Object, path: str, lenient: IngressValidationOptions) -> Iterator[FieldError]:
    at, name = child(path, "service"), service.get("name") or ""
    if not name:
        yield required(child(at, "name"))
    else:
        check = names.dns1123_label if lenient.relaxed_services else names.dns1035_label
        yield from (invalid(child(at, "name"), name, text) for text in check(name))
    port = service.get("port") or {}
    port_name, number = port.get("name") or "", port.get("number") or 0
    at = child(at, "port")
    if port_name and number:
        yield invalid(path, "", "cannot set both port name & port number")
    elif port_name:
        yield from (invalid(child(at, "name"), port_name, text) for text in names.port_name(port_name))
    elif number:
        yield from (invalid(child(at, "number"), number, text) for text in names.port(number))
    else:
        yield required(path, "port name or number is required")


def _tls(tls: Object, path: str, lenient: IngressValidationOptions) -> Iterator[FieldError]:
    for position, host in enumerate(tls.get("hosts") or []):
        at = index(child(path, "hosts"), position)
        yield from (invalid(at, host, text) for text in _host_texts(host))
    secret = tls.get("secretName") or ""
    if secret and not lenient.secret_names:
        at = child(path, "secretName")
        yield from (invalid(at, secret, text) for text in names.dns1123_subdomain(secret))


def status_errors(new: Object, old: Object, *, strict: bool) -> Iterator[FieldError]:
    """`strict`: gate StrictIPCIDRValidation."""
    known = [entry.get("ip") or "" for entry in _balancer(old)]
    for position, entry in enumerate(_balancer(new)):
        at = index("status.loadBalancer.ingress", position)
        address, host = entry.get("ip") or "", entry.get("hostname") or ""
        if address:
            yield from addresses.ip_errors(child(at, "ip"), address, strict=strict, known=known)
        if host:
            yield from (invalid(child(at, "hostname"), host, text) for text in names.dns1123_subdomain(host))
            if addresses.parse(host) is not None:
                yield invalid(child(at, "hostname"), host, _NO_IP)


def _balancer(obj: Object) -> list[Object]:
    return ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []


class IngressStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(status_errors(new, old, strict=ctx.features.strict_addresses))


class IngressStrategy(HandwrittenBuiltIn, WithGeneration):
    update_checks = (Check.METADATA_CHANGE, Check.METADATA, Check.CHANGE)
    status: ClassVar[type[Strategy]] = IngressStatus

    def _errors(self, obj: Object, old: Object | None, ctx: StrategyContext) -> list[FieldError]:
        lenient = IngressValidationOptions.of(
            old, relaxed=ctx.features.services.relaxed_names, texts=ctx.features.services.reference_texts
        )
        return list(spec_errors(obj.get("spec") or {}, "spec", lenient))

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*self._errors(obj, None, ctx), *class_annotation_errors(obj)]

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, old, ctx)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        annotated = CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {})
        if not annotated or obj["spec"].get("ingressClassName") is not None:
            return []
        name = CLASS_ANNOTATION
        return [f"annotation \"{name}\" is deprecated, please use 'spec.ingressClassName' instead"]

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return []


def ingress_cells(subject: Subject) -> Cells:
    return {
        "Class": subject.text("spec", "ingressClassName", default=NONE),
        "Hosts": _hosts(subject.items("spec", "rules")),
        "Address": joined(load_balancers(subject)),
        "Ports": "80, 443" if subject.count("spec", "tls") else "80",
    }


def _hosts(rules: list[Object]) -> str:
    """More rules are counted only if they come after the last host shown."""
    named = [(position, rule["host"]) for position, rule in enumerate(rules) if rule.get("host")]
    if not named:
        return "*"
    shown = named[:_MOST_HOSTS]
    text = ",".join(host for _, host in shown)
    if len(shown) == _MOST_HOSTS and len(rules) > shown[-1][0] + 1:
        return f"{text} + {len(rules) - _MOST_HOSTS} more..."
    return text
