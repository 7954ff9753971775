"""Converts custom resources between the versions of their definition: by name only, or by a webhook.

Source: apiextensions-apiserver pkg/apiserver/conversion/{converter,webhook_converter}.go, 1.36.
"""

import copy
from collections.abc import Sequence
from typing import Any, Protocol

from kubeskew.apimachinery.clock import Entropy
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.apiextensions.table import CustomResource
from kubeskew.apiserver.decoding.decoder import coerce
from kubeskew.apiserver.storage.encoding import dumps
from kubeskew.apiserver.structuralschema.model import structural_of
from kubeskew.apiserver.webhooks.client import CallError

_GROUP = "apiextensions.k8s.io"
_REVIEWS = ("v1", "v1beta1")
_SECONDS = 30.0
_METADATA_FROM_WEBHOOK = ("labels", "annotations")


def webhook_of(resource: Resource) -> Object | None:
    if not isinstance(resource, CustomResource) or resource.definition is None:
        return None
    return resource.definition.webhook


def relabelled(obj: Object, resource: Resource) -> Object:
    """Conversion "None" changes the apiVersion, and drops what that version's schema does not have."""
    return pruned({**obj, "apiVersion": resource.api_version}, resource)


def pruned(obj: Object, resource: Resource) -> Object:
    """Fields that the schema does not have are left out; wrong metadata raises WrongShape."""
    structural = structural_of(resource)
    if structural is None:
        return obj
    metadata = resource.schema.fields["metadata"].schema
    return coerce(obj, structural, metadata, drop_invalid=True)[0]


def is_empty(obj: Object) -> bool:
    """Only apiVersion and kind: a webhook has nothing to convert then (isEmptyUnstructuredObject)."""
    return obj.keys() <= {"apiVersion", "kind"}


class ReviewClient(Protocol):
    """Posts reviews to conversion webhooks, as `WebhookClient` does."""

    async def post(self, config: Object, review: Object, seconds: float) -> Object:
        """The answer is a review too; raises CallError."""
        ...


class Converter:
    def __init__(self, client: ReviewClient, entropy: Entropy) -> None:
        self._client = client
        self._entropy = entropy

    async def convert(self, webhook: Object, objects: Sequence[Object], target: Resource) -> list[Object]:
        """All `objects` are of one version; raises StatusError (500)."""
        what = _what(objects[0])
        uid = self._entropy.uid()
        request = {"uid": uid, "desiredAPIVersion": target.api_version, "objects": list(objects)}
        version = next(
            (version for version in webhook.get("conversionReviewVersions") or () if version in _REVIEWS), ""
        )
        if not version:
            raise _failed(f"conversion webhook for {what} failed: no supported conversion review versions")
        review = {"kind": "ConversionReview", "apiVersion": f"{_GROUP}/{version}", "request": request}
        try:
            answer = await self._client.post(webhook.get("clientConfig") or {}, review, _SECONDS)
            converted = _objects(answer, version, uid)
        except (CallError, _AnswerError) as error:
            raise _failed(f"conversion webhook for {what} failed: {error}") from None
        if len(converted) != len(objects):
            count = f"returned {len(converted)} objects, expected {len(objects)}"
            raise _failed(f"conversion webhook for {what} {count}")
        return [
            _checked(position, obj, original, target, what)
            for position, (obj, original) in enumerate(zip(converted, objects, strict=True))
        ]


class _AnswerError(Exception):
    """The webhook's answer is not a review that succeeded."""


def _objects(answer: Object, version: str, uid: str) -> list[Any]:
    """Raises _AnswerError unless the answer is a successful review of this version and, in v1, this uid."""
    expected = f"{_GROUP}/{version}, Kind=ConversionReview"
    api_version, kind = answer.get("apiVersion") or "", answer.get("kind") or ""
    if (api_version, kind) != (f"{_GROUP}/{version}", "ConversionReview"):
        raise _AnswerError(f"expected webhook response of {expected}, got {api_version}, Kind={kind}")
    response = answer.get("response")
    if not response:
        raise _AnswerError("no response provided")
    _check_shape(response)
    given = response.get("uid") or ""
    if version == "v1" and given != uid:
        raise _AnswerError(f'expected response.uid="{uid}", got "{given}"')
    result = response.get("result") or {}
    status = result.get("status") or ""
    if status != "Success":
        why = result.get("message") or f"response.result.status was '{status}', not 'Success'"
        raise _AnswerError(why)
    return response.get("convertedObjects") or []


def _check_shape(response: Any) -> None:
    """Raises _AnswerError, in Go's words, for what no ConversionResponse can hold."""
    parts: list[tuple[str, Any, type, str]] = [("response", response, dict, "v1.ConversionResponse")]
    if isinstance(response, dict):
        converted = response.get("convertedObjects")
        parts.append(("response.result", response.get("result"), dict, "v1.Status"))
        parts.append(("response.convertedObjects", converted, list, "[]runtime.RawExtension"))
    for name, value, kind, shown in parts:
        if value is not None and not isinstance(value, kind):
            found = decode_errors.found(value)
            raise _AnswerError(
                f"json: cannot unmarshal {found} into Go struct field ConversionReview.{name} of type {shown}"
            )


def _checked(position: int, converted: Any, original: Object, target: Resource, what: str) -> Object:
    """Metadata that a webhook cannot change stays as it was; raises StatusError (500)."""
    where = f"conversion webhook for {what} returned invalid converted object at index {position}"
    if not isinstance(converted, dict):
        raise _failed(f"{where}: Object 'Kind' is missing in '{dumps(converted).decode()}'")
    api_version, kind = converted.get("apiVersion") or "", converted.get("kind") or ""
    if api_version != target.api_version:
        wanted = f"(expected {target.api_version}, received {api_version})"
        raise _failed(f"{where}: invalid groupVersion {wanted}")
    if kind != original["kind"]:
        raise _failed(f"{where}: invalid kind (expected {original['kind']}, received {kind})")
    ours, theirs = original.get("metadata") or {}, converted.get("metadata")  # an apply may take all out
    if not isinstance(theirs, dict):
        kind = "null" if theirs is None else type(theirs).__name__
        raise _failed(f"conversion webhook for {what} returned invalid metadata: missing metadata in {kind}")
    for name, text in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (theirs.get(name) or "") != (ours.get(name) or ""):
            change = f"{ours.get(name) or ''} != {theirs.get(name) or ''}"
            raise _failed(f"{where}: must have the same {text}: {change}")
    return {**converted, "metadata": _restored(theirs, ours, what)}


def _restored(theirs: Object, ours: Object, what: str) -> Object:
    metadata = copy.deepcopy({k: v for k, v in ours.items() if k not in _METADATA_FROM_WEBHOOK})
    for name in _METADATA_FROM_WEBHOOK:
        given = theirs.get(name)
        if given is None:
            continue
        if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
            why = f"metadata.{name} is not a map of texts"
            raise _failed(f"conversion webhook for {what} returned invalid metadata: {why}")
        metadata[name] = given
    return metadata


def _what(obj: Object) -> str:
    return f"{obj['apiVersion']}, Kind={obj['kind']}"


def _failed(message: str) -> StatusError:
    return StatusError(500, "", message)
