"""Converts the objects of a request to the version that a webhook or a policy asks for, and back.

Source: k8s.io/apiserver/pkg/admission/conversion.go and plugin/webhook/generic/conversion.go, 1.36.
"""

import copy

from kubeskew.apimachinery.errors import StatusError, internal
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.golang.roundtrip import WrongShape, normalise_and_report
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.admission import Attributes
from kubeskew.apiserver.admission.dynamic.matching import Invocation
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.apiextensions.conversion import Converter, pruned, relabelled, webhook_of


class Versioned:
    """The objects of one request, each converted to a version when that is first needed.

    After `replace`, all later readers see the new object, in any version.
    """

    def __init__(self, services: AdmissionServices, attributes: Attributes) -> None:
        self._services = services
        self.attributes = attributes
        self._new: dict[str, Object] = {}
        self._old: dict[str, Object] = {}

    async def object(self, invocation: Invocation) -> Object | None:
        """Returns the new object; not to be changed."""
        return await self._in_version(self.attributes.object, invocation, self._new)

    async def old(self, invocation: Invocation) -> Object | None:
        """Returns the old object; not to be changed."""
        return await self._in_version(self.attributes.old, invocation, self._old)

    async def _in_version(
        self, obj: Object | None, invocation: Invocation, known: dict[str, Object]
    ) -> Object | None:
        if obj is None or not self._is_body(invocation):
            return obj
        version = invocation.resource.api_version
        found = known.get(version)
        if found is None:
            found = known[version] = await convert(self._services, obj, invocation.resource)
        return found

    def _is_body(self, invocation: Invocation) -> bool:
        """Decides whether the body is the object itself, not something of a subresource (Scale, Binding)."""
        return invocation.kind.kind == invocation.resource.kind

    async def replace(self, invocation: Invocation, new: Object, *, strict: bool = False) -> bool:
        """Makes `new`, in the invocation's version, the request's object; returns whether anything changed.

        Raises 500 if it does not fit its kind; with `strict` also if it has fields that its kind does not
        have.
        """
        before = await self.object(invocation)
        obj = self.attributes.object
        if obj is None or before is None:
            return False
        read = self._read(invocation, new, strict=strict)
        changed = read != before
        if not changed:
            return False
        if self._is_body(invocation):
            read = await convert(self._services, read, self.attributes.resource)
        else:
            read = copy.deepcopy(read)
        _overwrite(obj, read)
        self._new.clear()
        return True

    def _read(self, invocation: Invocation, new: Object, *, strict: bool) -> Object:
        resource = invocation.resource
        if not self._is_body(invocation):
            return new
        if (new.get("apiVersion"), new.get("kind")) != (resource.api_version, resource.kind):
            raise internal(
                f'no kind "{new.get("kind") or ""}" is registered for version '
                f'"{new.get("apiVersion") or ""}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
            )
        read = pruned(new, resource) if resource.custom else _typed(new, resource.schema, strict=strict)
        read.update(apiVersion=resource.api_version, kind=resource.kind)
        return self._services.codec.default(read, resource)


def _typed(new: Object, schema: Schema, *, strict: bool) -> Object:
    """Returns `new` as Go would read and write it; raises 500."""
    try:
        read, dropped = normalise_and_report(new, schema)
    except WrongShape:
        raise internal(decode_errors.explain(new, schema)) from None
    if strict and dropped:
        raise internal(f"strict decoding error: {', '.join(decode_errors.strict_errors(new, schema))}")
    return dict(read)


def _overwrite(obj: Object, new: Object) -> None:
    """Replaces the content of `obj` by that of `new`; all who hold `obj`, or its metadata, see the change."""
    metadata = obj.get("metadata")
    obj.clear()
    obj.update(new)
    if metadata is not None:
        metadata.clear()
        metadata.update(new.get("metadata") or {})
        obj["metadata"] = metadata


async def convert(services: AdmissionServices, obj: Object, resource: Resource) -> Object:
    """Returns `obj` in the version of `resource`, as a new object; raises 500."""
    if obj.get("apiVersion") == resource.api_version:
        return copy.deepcopy(obj)
    try:
        webhook = webhook_of(resource)
        if webhook is not None:
            converter = Converter(services.webhooks, services.environment.entropy)
            return (await converter.convert(webhook, [obj], resource))[0]
        if resource.custom:
            return relabelled(copy.deepcopy(obj), resource)
        return copy.deepcopy(services.codec.convert(obj, resource))
    except StatusError as error:
        raise internal(error.message) from error
