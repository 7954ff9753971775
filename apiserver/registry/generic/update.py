"""Changes an object, again and again until the change meets the object it was made for.

Source: k8s.io/apiserver/pkg/registry/generic/registry/store.go (Update), registry/rest/update.go and
storage/etcd3/store.go (GuaranteedUpdate), 1.36.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from kubeskew.apimachinery import errors, field
from kubeskew.apimachinery.errors import GroupKind, StatusError
from kubeskew.apimachinery.go_formats import parse_uint
from kubeskew.apimachinery.golang.roundtrip import holds_empties
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver import admission
from kubeskew.apiserver.apply.managedfields.entries import keep_times_of_no_change
from kubeskew.apiserver.caching.offload import offload
from kubeskew.apiserver.object_meta import SYSTEM_METADATA
from kubeskew.apiserver.registry.generic import checks, field_managers
from kubeskew.apiserver.registry.generic import create as generic_create
from kubeskew.apiserver.registry.generic.checks import deduplicate
from kubeskew.apiserver.registry.generic.registry import (
    Registry,
    WriteRequest,
    WriteResult,
    commit,
    commit_removal,
    confirm,
    guaranteed_update,
)
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext
from kubeskew.apiserver.storage.records import Entry, Key

# Makes the new object of the current one (None: there is none); both in the hub version.
Transform = Callable[[Object | None], Awaitable[Object]]

# Metadata that a new object does not take from an update or apply; that of a deletion by a known bug.
_NOT_GIVEN = SYSTEM_METADATA
_OF_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")


async def update(
    registry: Registry,
    name: str,
    transform: Transform,
    write: WriteRequest,
    *,
    uid: str = "",
    force_create: bool = False,
) -> WriteResult:
    """`transform` makes the new object of the current one. `uid` is a precondition if it is not empty.

    Raises 400, 404, 409 (the transformed object names another resourceVersion), 422.
    """

    # A subresource never creates by force, but what PUT creates, it creates by its subresource as well.
    creatable = registry.strategy.allow_create_on_update or (force_create and not write.subresource)

    async def attempt(entry: Entry | None) -> WriteResult:
        if entry is None and not creatable and registry.services.features.requests.absence_before_uid:
            raise errors.not_found(registry.requested_resource(write), name)
        if uid and uid != (entry.uid if entry is not None else ""):
            found = entry.uid if entry is not None else ""
            raise precondition_failed(registry, registry.key(write.namespace, name), "UID", uid, found)
        if entry is None:
            return await _create(registry, name, transform, write, creatable=creatable)
        await registry.fetch_conversion(entry)
        return await _update(registry, entry, transform, write)

    key = registry.requested_key(write.namespace, name)
    return await guaranteed_update(registry.services.store, key, attempt)


async def _create(
    registry: Registry, name: str, transform: Transform, write: WriteRequest, *, creatable: bool
) -> WriteResult:
    if not creatable:
        raise errors.not_found(registry.requested_resource(write), name)
    new = await transform(None)
    kept = registry.services.features.requests.keeps_given_deletion
    for field_name in _NOT_GIVEN:
        if not (kept and field_name in _OF_DELETION):
            new["metadata"].pop(field_name, None)
    if not write.dry_run:  # upstream's store drops it, which a dry run does not reach
        new["metadata"].pop("resourceVersion", None)
    return await generic_create.create(registry, new, write)


async def _update(registry: Registry, entry: Entry, transform: Transform, write: WriteRequest) -> WriteResult:
    services = registry.services
    old = registry.object(entry)
    codec = services.codec
    new = await field_managers.with_webhook_conversions(
        codec, registry.resource, lambda: transform(registry.object(entry))
    )
    strategy = registry.strategy_of(write.subresource)
    if not write.admitted:
        await services.admission.admit(registry.attributes(admission.UPDATE, write, entry.key.name, new, old))
        await offload(write.size, partial(deduplicate, new, write.warnings, mutated=True))
    _check_revision(registry, new, entry, write)
    effort = registry.effort(write, len(entry.value))
    check = partial(before_update, registry, strategy, new, old, write)
    store = partial(_admit_and_commit, registry, entry, new, old, write)
    return await registry.check_and_commit(new, effort, check, store)


def _is_unchanged(registry: Registry, new: Object, old: Object) -> bool:
    """Times do not count; `comparisons` counts how the answer was found out."""
    same_managers = keep_times_of_no_change(new, old)
    unchanged = same_managers and new == old
    slow = "equal_objects" if unchanged else "unequal_objects_slow"
    registry.services.metrics.comparisons[slow if same_managers else "unequal_objects_fast"] += 1
    return unchanged


async def _admit_and_commit(
    registry: Registry, entry: Entry, new: Object, old: Object, write: WriteRequest
) -> WriteResult:
    """Validating admission sees the checked object before it is stored, but not where nothing changed."""
    services = registry.services
    if not write.admitted:
        await services.admission.validate(
            registry.attributes(admission.UPDATE, write, entry.key.name, new, old)
        )
    checks.as_stored(new, registry.resource)
    unchanged = _is_unchanged(registry, new, old)
    if should_delete_during_update(registry, new, old):
        return await _delete(registry, entry, new, write)
    resource = registry.resource
    if unchanged and not resource.custom and services.codec.is_stored(resource, entry.value, entry.revision):
        await confirm(services.store, entry)
        return WriteResult(old, entry.revision, entry.value)
    return await commit(registry, entry.key, new, write, entry)


def _check_revision(registry: Registry, new: Object, entry: Entry, write: WriteRequest) -> None:
    try:
        revision = parse_uint(new["metadata"].get("resourceVersion") or "0")
    except ValueError as error:  # upstream hands on what its parser says
        raise StatusError(500, "", str(error)) from None
    if not revision:
        requested = write.requested or registry.resource
        if not registry.strategy.takes_unconditional_update(requested.version):
            number = 0 if registry.services.features.internal.escapes else field.Unquoted("0x0")  # a uint64
            problem = field.invalid("metadata.resourceVersion", number, "must be specified for an update")
            kind = GroupKind(*registry.requested_resource(write))  # upstream names the resource here
            raise errors.invalid(kind, entry.key.name, [problem])
        new["metadata"]["resourceVersion"] = str(entry.revision)
    elif revision != entry.revision:
        raise errors.conflict(registry.requested_resource(write), entry.key.name, errors.MODIFIED)


def before_update(
    registry: Registry, strategy: Strategy, new: Object, old: Object, write: WriteRequest
) -> None:
    """Mutating admission has seen the object, which is completed, and its change checked (rest.BeforeUpdate).

    Raises 422.
    """
    ctx = registry.context(write)
    metadata = new["metadata"]
    if registry.resource.namespaced:
        metadata.setdefault("namespace", write.namespace)
    else:
        metadata.pop("namespace", None)
    complete_and_check(strategy, new, old, ctx)
    write.warnings.extend(strategy.update_warnings(new, old, ctx))


def complete_and_check(strategy: Strategy, new: Object, old: Object, ctx: StrategyContext) -> None:
    """Raises 422 if the change breaks a rule."""
    metadata = new["metadata"]
    generation = old["metadata"].get("generation")
    if generation is None:
        metadata.pop("generation", None)
    else:
        metadata["generation"] = generation
    metadata.pop("selfLink", None)  # never stored
    counts, ignored = strategy.counts_generation(ctx), strategy.generation_ignores
    schema = None if ctx.resource.custom else ctx.resource.schema
    changed = counts and strategy.counts_dropped_fields and _differs(new, old, ignored, schema)
    emptied = counts and strategy.counts_empty_lists and _holds_empties(new, ignored)
    strategy.prepare_for_update(new, old, ctx)
    if strategy.drops_disabled(ctx):
        checks.drop_disabled_fields(new, old, ctx)
    if (
        changed
        or emptied
        or (counts and not strategy.counts_dropped_fields and _differs(new, old, ignored, schema))
    ):
        new["metadata"]["generation"] = (generation or 0) + 1  # dropping may have made it anew
    checks.complete(new, ctx.resource)
    checks.check_change(strategy, new, old, ctx)


def _holds_empties(new: Object, ignored: frozenset[str]) -> bool:
    """Old objects have none: what is stored loses them."""
    return any(holds_empties(value) for name, value in new.items() if name not in ignored)


def _differs(new: Object, old: Object, ignored: frozenset[str], schema: Schema | None) -> bool:
    """A deletion counts by itself, when it is marked. Without a schema every difference counts."""
    names = (new.keys() | old.keys()) - ignored - {"apiVersion", "kind"}
    return any(not _fields_alike(new, old, name, schema) for name in sorted(names))


def _fields_alike(new: Object, old: Object, name: str, schema: Schema | None) -> bool:
    one, other = new.get(name), old.get(name)
    if one == other:
        return True
    field_ = schema.fields.get(name) if schema is not None else None
    if field_ is None or (field_.pointer and (one is None or other is None)):
        return False
    return _alike(one, other, field_.schema)


def _alike(new: Any, old: Any, schema: Schema) -> bool:
    """Compares values of one Go type, of which none is behind a nil pointer: an empty list or map counts as
    none, and a struct that is absent as one without values. How raw fields are written counts.

    Source: k8s.io/apimachinery/third_party/forked/golang/reflect/deep_equal.go, 1.36.
    """
    items = schema.items
    if schema.kind is Kind.OBJECT:
        new, old = new or {}, old or {}
        return all(_fields_alike(new, old, name, schema) for name in sorted(new.keys() | old.keys()))
    if schema.kind is Kind.ANY:  # a schema, or a list of them
        if items is None or type(new) is not type(old):
            return False
        return _lists_alike(new, old, items) if isinstance(new, list) else _alike(new, old, items)
    if schema.kind is Kind.MAP:
        new, old = new or {}, old or {}
        return new == old or (
            items is not None
            and new.keys() == old.keys()
            and all(new[name] == old[name] or _alike(new[name], old[name], items) for name in new)
        )
    return schema.kind is Kind.LIST and _lists_alike(new or [], old or [], items)


def _lists_alike(new: Any, old: Any, items: Schema | None) -> bool:
    if new == old or items is None:
        return bool(new == old)
    return len(new) == len(old) and all(
        one == other or _alike(one, other, items) for one, other in zip(new, old, strict=True)
    )


def should_delete_during_update(registry: Registry, new: Object, old: Object) -> bool:
    """A change may let go of an object that is being deleted (ShouldDeleteDuringUpdate)."""
    if new["metadata"].get("finalizers") or not old["metadata"].get("deletionTimestamp"):
        return False
    if old["metadata"].get("deletionGracePeriodSeconds"):
        return False
    return not registry.strategy.stays_after_delete(new)


async def _delete(registry: Registry, entry: Entry, new: Object, write: WriteRequest) -> WriteResult:
    """The object goes with this change; the client sees the change at the revision before."""
    if not write.dry_run:
        await commit_removal(registry, entry, write)
    return WriteResult(new, entry.revision, None, deleted=True)


def precondition_failed(registry: Registry, key: Key, what: str, wanted: str, found: str) -> StatusError:
    """409 for an object that is not the one that was meant; `what` is UID or ResourceVersion."""
    resource = registry.resource
    place = f"{resource.group}/{resource.plural}" if resource.custom else resource.plural
    path = "/".join(part for part in ("", "registry", place, key.namespace, key.name) if part or not place)
    failed = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
    why = (
        f"StorageError: invalid object, Code: 4, Key: /{path.lstrip('/')}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: {failed}"
    )
    return errors.conflict(resource.group_resource, key.name, why)
