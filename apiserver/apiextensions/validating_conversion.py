"""Holds the rules of `spec.conversion`.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go
(validateCustomResourceConversion) and apiserver pkg/util/webhook/validation.go, 1.36.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from kubeskew.apimachinery.field import FieldError, child, forbidden, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.webhooks.validation import (
    review_version_errors,
    validate_ca_bundle,
    validate_service,
    validate_url,
)

_PATH = "spec.conversion"
_CLIENT = f"{_PATH}.webhookClientConfig"
_REVIEWS = f"{_PATH}.conversionReviewVersions"
_KNOWN = ("v1", "v1beta1")


def validate_conversion(spec: Object, old: Object | None, *, established: bool) -> list[FieldError]:
    """Returns the errors of a definition's conversion; `old` is the spec before, None for a new one."""
    conversion = spec.get("conversion")
    if conversion is None:
        return []
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook") or {}
    client, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    errors = []
    if spec.get("preserveUnknownFields") and strategy != "None":
        why = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid(f"{_PATH}.strategy", strategy, why))
    errors += _strategy(strategy)
    if strategy != "Webhook":
        unset = "should not be set when strategy is not set to Webhook"
        if client is not None:
            errors.append(forbidden(_CLIENT, unset))
        return [*errors, *([forbidden(_REVIEWS, unset)] if reviews else [])]
    before = ((old or {}).get("conversion") or {}).get("webhook") or {}
    if client is None:
        errors.append(required(_CLIENT, "required when strategy is set to Webhook"))
    else:
        errors += _client(client)
        if established and not _has_bad_bundle(before.get("clientConfig") or {}):
            errors += _bundle(client)
    lenient = old is not None and not _is_known(before.get("conversionReviewVersions") or ())
    return [*errors, *_review_versions(reviews, lenient=lenient)]


def _strategy(strategy: str) -> Iterator[FieldError]:
    if not strategy:
        yield required(f"{_PATH}.strategy")
    elif strategy not in {"None", "Webhook"}:
        yield not_supported(f"{_PATH}.strategy", strategy, ("None", "Webhook"))


def _client(client: Object) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(_CLIENT, "exactly one of url or service is required")]
    if url is not None:
        return list(validate_url(child(_CLIENT, "url"), url))
    return list(validate_service(child(_CLIENT, "service"), service or {}))


def _bundle(client: Object) -> list[FieldError]:
    bundle = client.get("caBundle") or ""
    return list(validate_ca_bundle(child(_CLIENT, "caBundle"), bundle)) if bundle else []


def _has_bad_bundle(client: Object) -> bool:
    return bool(_bundle(client))


def _is_known(versions: Sequence[str]) -> bool:
    return not versions or any(version in _KNOWN for version in versions)


def _review_versions(versions: Sequence[Any], *, lenient: bool) -> Iterator[FieldError]:
    if not versions:
        yield required(_REVIEWS)
        return
    yield from review_version_errors(versions, _REVIEWS)
    if not lenient and not set(versions) & set(_KNOWN):
        yield invalid(_REVIEWS, list(versions), f"must include at least one of {', '.join(_KNOWN)}")
