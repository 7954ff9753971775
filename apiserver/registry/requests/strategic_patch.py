"""Applies a strategic merge patch to a built-in object: the patched map is not written as JSON in between.

Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go (strategicPatchObject, applyPatchToObject), 1.36.
"""

from typing import Any

from kubeskew.apimachinery import errors, field
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.golang.decode_errors import Repeated, ShapeError, kept_errors
from kubeskew.apimachinery.golang.raw_extensions import plain, raw_fields
from kubeskew.apimachinery.golang.roundtrip import WrongShape, normalise_and_report
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.apply.patching import unstructured
from kubeskew.apiserver.apply.patching.strategic import load_strategic, merge_strategic
from kubeskew.apiserver.apply.patching.values import show
from kubeskew.apiserver.decoding import decoder
from kubeskew.apiserver.decoding.decoder import Decoded
from kubeskew.apiserver.decoding.pruning import duplicates

_MAP = "map[string]interface {}"


def patched(live: Object, body: bytes, gvk: GroupVersionKind, schema: Schema, validation: str) -> Decoded:
    """Returns `live` with the patch, typed; raises StatusError, and 422 with the patch as value.

    A kind that the patch sets is ignored. `validation` is the request's fieldValidation.
    """
    patch = load_strategic(body)
    if not isinstance(patch, dict | None):
        found = decode_errors.found(patch)
        raise errors.bad_request(f"json: cannot unmarshal {found} into Go value of type {_MAP}")
    try:
        strict = [] if validation == "Ignore" else _repeated(body)
        raw = raw_fields(schema)
        merged = merge_strategic(live if raw is None else plain(live), patch, schema)
        decoder.check_depth(merged, decoder.MAX_OBJECT_DEPTH)
        walked, dropped = _typed(merged, schema)
        decoder.keep_reset(merged, walked)
        if raw is not None:
            raw.sort(walked)
    except ShapeError as error:
        raise _unreadable(patch, str(error)) from None
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
    if dropped and validation != "Ignore":
        strict += unstructured.unknown_fields(merged, schema)
    if strict and validation == "Strict":
        raise _unreadable(patch, f"strict decoding error: {', '.join(strict)}")
    walked["apiVersion"], walked["kind"] = gvk.api_version, gvk.kind
    return Decoded(walked, strict, gvk)


def _typed(merged: Object, schema: Schema) -> tuple[Any, bool]:
    try:
        return normalise_and_report(merged, schema)
    except WrongShape:
        return normalise_and_report(unstructured.fitted(merged, schema), schema)


def _repeated(body: bytes) -> list[str]:
    """Returns errors such as `duplicate field "a.b"` in the patch itself."""
    value = decoder.parse(body, "application/json").value
    return kept_errors(duplicates(value)) if isinstance(value, Repeated) else []


def _unreadable(patch: Any, why: str) -> errors.StatusError:
    problem = field.invalid("patch", show(patch), why)
    return errors.invalid(errors.GroupKind("", ""), "", [problem])
