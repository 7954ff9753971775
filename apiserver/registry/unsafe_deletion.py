"""Deletes an object that cannot be read: no finalizer, precondition or grace keeps it.

Source: k8s.io/apiserver/pkg/registry/generic/registry/corrupt_obj_deleter.go and
pkg/endpoints/handlers/delete.go, 1.36; what 1.37 does otherwise is from its corrupt_obj_deleter.go.
"""

from kubeskew.apimachinery import errors, field
from kubeskew.apimachinery.errors import GroupKind, StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import admission
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.registry.generic.registry import (
    Registry,
    WriteRequest,
    WriteResult,
    commit_removal,
    guaranteed_update,
)
from kubeskew.apiserver.storage.records import Entry
from kubeskew.apiserver.unreadable import UNSAFE, UnreadableError

VERB = "unsafe-delete-ignore-read-errors"
_READABLE = "is exclusively used to delete corrupt object(s), try again by removing this option"
_DECODABLE = "unsafe deletion is not allowed because the object is decodable from storage"


async def delete(registry: Registry, name: str, options: Object, write: WriteRequest) -> WriteResult:
    """Raises 403, 404, 409 and 422."""
    check_permission(registry, name, options, write)

    async def attempt(entry: Entry | None) -> WriteResult:
        if entry is None:
            raise errors.not_found(registry.requested_resource(write), name)
        if _is_readable(registry, entry):
            raise _refusal(registry, name, write)
        if not write.dry_run:
            await commit_removal(registry, entry, write)
        return WriteResult({}, entry.revision, None, deleted=True)

    key = registry.requested_key(write.namespace, name)
    return await guaranteed_update(registry.services.store, key, attempt)


def check_permission(registry: Registry, name: str, options: Object, write: WriteRequest) -> None:
    """Raises 403 unless the user may delete what cannot be read, which takes a verb of its own."""
    resource = write.requested or registry.resource
    question = RequestInfo(
        True,
        "",
        VERB,
        resource.group,
        resource.version,
        resource.plural,
        name=name,
        namespace=write.namespace,
    )
    decision = registry.services.authorizer.authorize(write.user, question)
    if not decision.allowed:
        write.options = options
        attributes = registry.attributes(admission.DELETE, write, name, None, None)
        raise attributes.refuse(f'not permitted to do "{VERB}", reason: {decision.reason}')


def _is_readable(registry: Registry, entry: Entry) -> bool:
    try:
        registry.services.codec.served(registry.resource, entry.value, entry.revision)
    except UnreadableError:
        return False
    return True


def _refusal(registry: Registry, name: str, write: WriteRequest) -> StatusError:
    resource = registry.requested_resource(write)
    if registry.services.features.requests.readable_is_conflict:
        return errors.conflict(resource, name, _DECODABLE)
    problem = field.invalid(UNSAFE, True, _READABLE)
    return errors.invalid(GroupKind(*resource), name, [problem])
