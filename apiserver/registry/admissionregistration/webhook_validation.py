"""Holds the rules of ValidatingWebhookConfiguration and MutatingWebhookConfiguration.

Source: k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go, 1.36.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, duplicate, index, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.admissionregistration import match_rules as rules
from kubeskew.apiserver.registry.admissionregistration.match_rules import ExpressionCheck
from kubeskew.apiserver.registry.shared.selectors import selector_errors
from kubeskew.apiserver.webhooks.validation import review_version_errors, validate_service, validate_url

_REVIEWS = ("v1", "v1beta1")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_ALL_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")


@dataclass(frozen=True, slots=True)
class WebhookValidationOptions:
    """Holds the errors that an update may have because the old object had them too."""

    side_effects: bool = False
    unknown_reviews: bool = False
    repeated_names: bool = False

    @classmethod
    def of(cls, old: Object) -> "WebhookValidationOptions":
        hooks = old.get("webhooks") or []
        listed = [hook.get("name") for hook in hooks]
        return cls(
            any(hook.get("sideEffects") not in _SIDE_EFFECTS for hook in hooks),
            not all(_is_known(hook.get("admissionReviewVersions") or []) for hook in hooks),
            len(set(listed)) != len(listed),
        )


def webhooks_errors(
    obj: Object, check: ExpressionCheck, *, mutating: bool, lenient: WebhookValidationOptions | None = None
) -> Iterator[FieldError]:
    """Checks the webhooks of a configuration."""
    allowed = lenient or WebhookValidationOptions()
    seen: set[str] = set()
    for position, hook in enumerate(obj.get("webhooks") or []):
        at = index("webhooks", position)
        yield from _webhook_errors(hook, at, check, allowed, mutating=mutating)
        versions = hook.get("admissionReviewVersions")
        yield from _reviews_errors(versions, child(at, "admissionReviewVersions"), allowed)
        name = hook.get("name") or ""
        if name in seen and not allowed.repeated_names:
            yield duplicate(child(at, "name"), name)
        seen.add(name)


def _webhook_errors(
    hook: Object, path: str, check: ExpressionCheck, allowed: WebhookValidationOptions, *, mutating: bool
) -> Iterator[FieldError]:
    yield from fully_qualified_errors(hook.get("name") or "", child(path, "name"))
    for position, rule in enumerate(hook.get("rules") or []):
        yield from rules.operation_rule_errors(rule, index(child(path, "rules"), position))
    yield from _known(hook, "failurePolicy", rules.FAILURE_POLICIES, path)
    yield from _known(hook, "matchPolicy", rules.MATCH_POLICIES, path)
    side_effects = _ALL_SIDE_EFFECTS if allowed.side_effects else _SIDE_EFFECTS
    if hook.get("sideEffects") is None:
        yield required(child(path, "sideEffects"), f"must specify one of {', '.join(side_effects)}")
    yield from _known(hook, "sideEffects", side_effects, path)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        yield invalid(child(path, "timeoutSeconds"), seconds, text)
    for name in ("namespaceSelector", "objectSelector"):
        if hook.get(name) is not None:
            yield from selector_errors(hook[name], child(path, name))
    if mutating:
        yield from _known(hook, "reinvocationPolicy", rules.REINVOCATION_POLICIES, path)
    yield from client_config_errors(hook.get("clientConfig") or {}, child(path, "clientConfig"))
    conditions = hook.get("matchConditions") or []
    yield from rules.conditions_errors(conditions, child(path, "matchConditions"), check)


def _known(hook: Object, name: str, known: tuple[str, ...], path: str) -> Iterator[FieldError]:
    value = hook.get(name)
    if value is not None and value not in known:
        yield not_supported(child(path, name), value, known)


def client_config_errors(config: Object, path: str) -> Iterator[FieldError]:
    """Checks a WebhookClientConfig: by url or by service."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from validate_url(child(path, "url"), url)
    elif service is not None:
        yield from validate_service(child(path, "service"), service)


def fully_qualified_errors(name: str, path: str) -> Iterator[FieldError]:
    """Checks a name with at least three parts (IsFullyQualifiedName)."""
    wrong = names.dns1123_subdomain(name) if name else []
    if not name:
        yield required(path)
    elif wrong:
        yield invalid(path, name, ",".join(wrong))
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _is_known(versions: list[str]) -> bool:
    return any(version in _REVIEWS for version in versions)


def _reviews_errors(
    versions: list[str] | None, path: str, allowed: WebhookValidationOptions
) -> Iterator[FieldError]:
    listed = ", ".join(_REVIEWS)
    if not versions:
        yield required(path, f"must specify one of {listed}")
        return
    yield from review_version_errors(versions, path)
    if not _is_known(versions) and not allowed.unknown_reviews:
        yield invalid(path, versions, f"must include at least one of {listed}")
