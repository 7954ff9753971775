"""Holds the rules of the claims that a pod's spec lists.

Source: pkg/apis/core/validation/validation.go (validatePodResourceClaims), 1.26 to 1.36; KEP-3063 as drafted,
section API, for claims with a template inside.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    ROOT,
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import PodFeatures
from kubeskew.apiserver.registry.shared.inline_claims import claim_template_errors
from kubeskew.apiserver.registry.shared.internal_values import pod_claim
from kubeskew.apiserver.registry.shared.podtemplate.annotations import MIRROR

_CLAIM, _TEMPLATE_NAME, _TEMPLATE = "resourceClaimName", "resourceClaimTemplateName", "template"


def claim_errors(
    claims: list[Object], path: str, features: PodFeatures, pod: Object | None
) -> Iterator[FieldError]:
    """Checks `resourceClaims`. `pod`: the metadata of a real pod, not given for templates."""
    if MIRROR in ((pod or {}).get("annotations") or {}) and not features.mirrors_may_claim:
        yield from (forbidden(ROOT, "static pods do not support resource claims") for _ in claims)
        return
    seen: set[str] = set()
    for position, claim in enumerate(claims):
        at = index(path, position)
        name = claim.get("name") or ""
        if not name:
            yield required(child(at, "name"))
        elif name in seen:
            yield duplicate(child(at, "name"), name)
        else:
            yield from (invalid(child(at, "name"), name, text) for text in names.dns1123_label(name))
            seen.add(name)
        nested = features.nested_claim_sources
        source = (claim.get("source") or {}) if nested else claim
        yield from _source_errors(source, child(at, "source") if nested else at, features)
        if features.final_claim_names and pod is not None and name and source.get(_CLAIM) is None:
            texts = names.dns1123_subdomain(f"{pod.get('name') or ''}-{name}")
            yield from (invalid(child(at, "name"), name, f"final ResourceClaim name: {t}") for t in texts)


def _source_errors(source: Object, path: str, features: PodFeatures) -> Iterator[FieldError]:
    """Checks that a claim has exactly one source, and the source."""
    sources = (_CLAIM, _TEMPLATE if features.inline_claim_templates else _TEMPLATE_NAME)
    used = [name for name in sources if source.get(name) is not None]
    shown = pod_claim(source, sources, named=not features.nested_claim_sources)
    if len(used) > 1:
        listed = " or ".join(f"`{name}`" for name in sources)
        yield invalid(path, shown, f"at most one of {listed} may be specified")
    elif not used:
        listed = ", ".join(f"`{name}`" for name in sources)
        yield invalid(path, shown, f"must specify one of: {listed}")
    for field in used:
        at, value = child(path, field), source[field]
        if field == _TEMPLATE:
            yield from claim_template_errors(value, at)
        elif features.claim_sources_checked:
            yield from (invalid(at, value, text) for text in names.dns1123_subdomain(value))
