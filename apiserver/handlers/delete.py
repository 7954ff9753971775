"""DELETE of one object, and of a selection.

Source: k8s.io/apiserver/pkg/endpoints/handlers/delete.go, 1.36.
"""

from dataclasses import replace

from kubeskew.apimachinery import errors, field
from kubeskew.apimachinery.errors import is_reason
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.decoding import decoder
from kubeskew.apiserver.decoding.decoder import Parsed
from kubeskew.apiserver.handlers.list_objects import (
    Listed,
    listed_of,
    metadata_of,
    objects,
    unreadable_list,
)
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.parameters import ListOptions
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry import unsafe_deletion
from kubeskew.apiserver.registry.generic import delete as generic_delete
from kubeskew.apiserver.registry.generic.registry import WriteResult
from kubeskew.apiserver.registry.generic.selection import Selection, selection
from kubeskew.apiserver.registry.requests import responses
from kubeskew.apiserver.registry.requests.scope import (
    Scope,
    body_type,
    delete_options_schema,
    read_body,
    write_of,
)
from kubeskew.apiserver.storage.records import Entry
from kubeskew.apiserver.unreadable import UNSAFE, UnreadableError

_KIND = GroupVersionKind("", "v1", "DeleteOptions")
# Kinds that upstream's scheme for options has in every version and cannot convert to DeleteOptions.
_UNVERSIONED = frozenset(
    {"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "CreateOptions", "Status", "UpdateOptions"}
)
# The name of the scheme in errors: the place of its variable, after the last vendor directory, else
# from the last "pkg" on (pkg/util/naming/from_stack.go).
_SCHEME = "pkg/apis/meta/internalversion/scheme/register.go:27"
_VENDORED_SCHEME = f"k8s.io/apimachinery/{_SCHEME}"
_PAGE = 10_000  # objects of a collection that are listed at once, to be deleted
_NOT_MANY = "is not allowed with DELETECOLLECTION, try again after removing the option"


async def delete(request: Request, scope: Scope) -> Response:
    """Takes options from body or query; answers the object, or a Status if it is gone at once."""
    form = responses.form_of(request)
    unsafe = scope.registry.reports_corruption
    dry_runs = scope.services.features.requests.unsafe_dry_runs
    body = await _body(request, scope)
    options = parameters.delete_options(request, body, unsafe=unsafe, unsafe_dry_runs=dry_runs)
    write = write_of(request, scope, dry_run=bool(options.get("dryRun")))
    _warn_of_orphans(request, scope, options)
    if options.get(UNSAFE):
        await unsafe_deletion.delete(scope.registry, request.info.name, options, write)
        return responses.document(_success(scope, request.info.name), responses.plain(form))
    result = await generic_delete.delete(scope.registry, request.info.name, options, write)
    asked_to_cascade = options.get("orphanDependents") is False
    status = 202 if asked_to_cascade and not result.deleted else 200
    if result.deleted and not scope.registry.strategy.returns_deleted_object:
        return responses.document(_gone(scope, result), responses.plain(form), status)
    obj = scope.services.codec.convert(result.obj, scope.resource)
    return responses.render(request, scope, obj, form, status)


def _warn_of_orphans(request: Request, scope: Scope, options: Object) -> None:
    """Warns clients that leave it to the kind what becomes of dependents, where they stay."""
    text = scope.registry.strategy.orphans_with_warning
    if text and options.get("propagationPolicy") is None and options.get("orphanDependents") is None:
        request.warnings.append(text)


def _success(scope: Scope, name: str) -> Object:
    head: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return head | {"details": {"name": name, "kind": scope.resource.kind}, "code": 200}


def _gone(scope: Scope, result: WriteResult) -> Object:
    metadata = result.obj["metadata"]
    resource = scope.resource.group_resource
    details = {
        "name": metadata["name"],
        "group": resource.group,
        "kind": resource.resource,
        "uid": metadata["uid"],
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {name: value for name, value in details.items() if value},
    }


async def _body(request: Request, scope: Scope) -> Object | None:
    """None if there is no body. Unreadable options are a 400, before 1.35 a 500."""
    body = await read_body(request)
    if not body:
        return None
    schema = delete_options_schema(scope)
    content_type = body_type(request, schema)
    try:
        return _decoded(scope, body, content_type, schema)
    except ValueError as error:
        if not scope.services.features.requests.unreadable_options_are_bad:
            raise errors.StatusError(500, "", str(error)) from None
        raise errors.bad_request(str(error)) from None


def _decoded(scope: Scope, body: bytes, content_type: str, schema: Schema) -> Object:
    """DeleteOptions of any version; raises ValueError with the text of upstream's decoder."""
    try:
        value = decoder.parse(body, content_type, schema).value
    except ValueError as error:
        raise ValueError(decoder.unreadable(error, content_type)) from None
    if value is None:
        return {}
    why = decoder.head_error(value) if isinstance(value, dict) else decoder.no_object(value)
    if why is not None:
        raise ValueError(why)
    kind = value.get("kind") or _KIND.kind
    if kind in _UNVERSIONED:
        raise ValueError(f"converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion")
    if kind != _KIND.kind:
        version = value.get("apiVersion") or ("meta.k8s.io/v1" if scope.resource.custom else "v1")
        scheme = _SCHEME if scope.services.features.requests.go_workspace_paths else _VENDORED_SCHEME
        raise ValueError(f'no kind "{kind}" is registered for version "{version}" in scheme "{scheme}"')
    try:
        return decoder.decode_value(Parsed(value), _KIND, schema, "Ignore").object
    except errors.StatusError as error:
        why = error.message.partition("cannot be handled as a DeleteOptions: ")[2]
        raise ValueError(why or error.message) from None


async def delete_collection(request: Request, scope: Scope) -> Response:
    """Deletes each selected object; answers the list of them as they were."""
    form = responses.form_of(request)
    reads = scope.services.features.reads
    options = parameters.list_options(request, watch=False, watch_list=reads.watch_list)
    wanted = await selection(request, scope.registry, options)
    unsafe = scope.registry.reports_corruption
    how = parameters.delete_options(request, await _body(request, scope), unsafe=unsafe)
    if how.get(UNSAFE):
        parameters.refuse("DeleteOptions", [field.invalid(UNSAFE, True, _NOT_MANY)])
    write = write_of(request, scope, dry_run=bool(how.get("dryRun")))
    write.collection = True
    _warn_of_orphans(request, scope, how)
    try:
        first, entries = await _listed(scope, options, wanted, in_pages=reads.pages_deletions)
        items, metadata = objects(scope, entries), metadata_of(scope, first, wanted)
    except UnreadableError as error:
        raise unreadable_list(scope, wanted.namespace, error) from None
    for entry in entries:
        write.namespace = entry.key.namespace
        try:
            await generic_delete.delete(scope.registry, entry.key.name, dict(how), write)
        except errors.StatusError as error:
            if not is_reason(error, "NotFound"):
                raise
    return responses.document(responses.convert_list(request, scope, items, metadata, form), form)


async def _listed(
    scope: Scope, options: ListOptions, wanted: Selection, *, in_pages: bool
) -> tuple[Listed, list[Entry]]:
    """Pairs the first page with the entries of all pages. Without a limit of the client's each page has one
    of the server's, which makes a list at a revision exact (registry/store.go, 1.36).
    """
    if options.limit or not in_pages:
        listed = await listed_of(scope, options, wanted)
        return listed, list(listed.page.entries)
    options = options._replace(limit=_PAGE)
    first = listed = await listed_of(scope, options, wanted)
    entries = list(listed.page.entries)
    wanted = replace(wanted, continues=True)
    while listed.token:
        options = options._replace(continue_token=listed.token, resource_version="", match="")
        listed = await listed_of(scope, options, wanted)
        entries += listed.page.entries
    return first, entries
