"""Applies JSON merge patches (RFC 7386) with the corner cases of evanphx/json-patch v4, as upstream."""

from typing import Any

from kubeskew.apiserver.apply.patching.values import load, malformed


def apply_merge_patch(doc: Any, patch: bytes | Any) -> Any:
    """Applies `patch` (bytes, or its JSON value) to `doc`; raises PatchError."""
    if isinstance(patch, bytes):
        try:
            patch = load(patch)
        except ValueError:
            raise malformed("Invalid JSON Patch") from None
    if isinstance(patch, list) or (isinstance(patch, dict) and not isinstance(doc, dict)):
        return _without_nulls(patch)
    if not isinstance(patch, dict):
        raise malformed("Invalid JSON Patch")
    return _merge(doc, patch)


def _merge(doc: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(doc)
    for key, value in patch.items():
        current = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(current, dict) and isinstance(value, dict):
            merged[key] = _merge(current, value)
        elif isinstance(current, dict):
            merged[key] = value  # nulls within an array stay when it takes the place of an object
        else:
            merged[key] = _without_nulls(value)
    return {key: merged[key] for key in sorted(merged)}  # a map, in Go


def _without_nulls(value: Any) -> Any:
    """Returns `value` without the null members of its objects; null elements of arrays stay."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
