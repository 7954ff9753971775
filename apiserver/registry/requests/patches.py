"""Reads what patches of objects and of their scales share: media types, the configuration of an apply.

Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go, 1.36.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.decoding import decoder
from kubeskew.apiserver.http import media_types
from kubeskew.apiserver.http.media_types import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.registry.requests.scope import Scope


def patch_type(request: Request, scope: Scope) -> str:
    """Returns the patch's media type; raises 415. Custom resources have no strategic merge patch."""
    known = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if not scope.resource.custom:
        known.insert(2, STRATEGIC_PATCH)
    content_type = request.headers.get("content-type", "").partition(";")[0]  # to the letter
    if content_type not in known:
        raise media_types.unsupported(known)
    return content_type


class Configuration(NamedTuple):
    """Holds an applied configuration: the client's fields and nothing more. `repeated` are YAML's strict
    errors.
    """

    value: Object
    repeated: Sequence[str]


def read_configuration(body: bytes) -> Configuration:
    """Returns the configuration in the body of an apply; raises 400."""
    try:
        parsed = decoder.parse(body, APPLY_PATCH)
    except ValueError as error:
        raise errors.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if parsed.value is not None and not isinstance(parsed.value, dict):
        found = decode_errors.found(parsed.value)
        why = f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        raise errors.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    return Configuration(parsed.value or {}, parsed.duplicates)


def check_repeated(request: Request, config: Configuration, validation: str) -> None:
    """Reports repeated keys as the request's fieldValidation says; comes after the merge. Raises 400."""
    for text in config.repeated if validation != "Ignore" else ():
        if validation == "Strict":
            raise errors.bad_request(f"error strict decoding YAML: error converting YAML to JSON: {text}")
        request.warnings.extend(decoder.lines([text]))
