"""Deletes an object: at once, gracefully, or when its finalizers are gone.

Source: k8s.io/apiserver/pkg/registry/generic/registry/store.go (Delete) and registry/rest/delete.go, 1.36.
"""

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.clock import later, parse_timestamp, timestamp
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import admission
from kubeskew.apiserver.registry.generic.registry import (
    Registry,
    WriteRequest,
    WriteResult,
    commit,
    commit_removal,
    confirm,
    guaranteed_update,
)
from kubeskew.apiserver.registry.generic.strategy import Strategy
from kubeskew.apiserver.storage.interfaces import RevisionMismatchError
from kubeskew.apiserver.storage.records import Entry

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


async def delete(registry: Registry, name: str, options: Object, write: WriteRequest) -> WriteResult:
    """`options` are DeleteOptions, checked; raises 400, 404 and 409."""

    async def attempt(entry: Entry | None) -> WriteResult:
        if entry is None:
            raise errors.not_found(registry.requested_resource(write), name)
        await registry.fetch_conversion(entry)
        return await _delete(registry, entry, options, write)

    key = registry.requested_key(write.namespace, name)
    return await guaranteed_update(registry.services.store, key, attempt)


async def _delete(registry: Registry, entry: Entry, options: Object, write: WriteRequest) -> WriteResult:
    services, strategy = registry.services, registry.strategy
    old = registry.object(entry)
    check_preconditions(registry, entry, options)
    new = registry.object(entry)
    if (
        strategy.is_graceful
        and old["metadata"].get("deletionTimestamp")
        and not _shorten(registry, new, options)
    ):
        return await _unchanged(registry, entry, old)
    if not write.admitted:
        write.options = options
        attributes = registry.attributes(admission.DELETE, write, entry.key.name, None, old)
        attributes.collection = write.collection
        await services.admission.admit(attributes)
        await services.admission.validate(attributes)
    if strategy.stays_after_delete(new):
        return await _mark_kept(registry, entry, new, options, write)
    _set_finalizers(strategy, new, options)
    finalizers = bool(new["metadata"].get("finalizers"))
    if strategy.is_graceful and not _has_had_its_grace(old):
        period = _mark_graceful(registry, strategy, new, options)
        if finalizers or period > 0:
            return await _commit_marked(registry, entry, new, write)
        marked = await _commit_marked(registry, entry, new, write)
        return marked if write.dry_run else await _remove_marked(registry, entry, marked, write)
    if finalizers:
        mark(registry, new, 0)
        return await _commit_marked(registry, entry, new, write)
    return await _remove(registry, entry, old, write)


def check_preconditions(registry: Registry, entry: Entry, options: Object) -> None:
    """Raises 409 if the object is not the one that was meant."""
    wanted = options.get("preconditions") or {}
    what = GroupResource(registry.resource.group, registry.resource.kind)  # upstream names the kind here
    uid, revision = wanted.get("uid"), wanted.get("resourceVersion")
    if registry.strategy.has_own_delete:
        found = {"UID": (uid, entry.uid), "ResourceVersion": (revision, str(entry.revision))}
        for part, (meant, is_) in found.items():
            if meant is not None and meant != is_:
                why = f"Precondition failed: {part} in precondition: {meant}, {part} in object meta: {is_}"
                raise errors.conflict(registry.resource.group_resource, entry.key.name, why)
    if uid is not None and uid != entry.uid:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({entry.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(what, entry.key.name, why)
    if revision is not None and revision != str(entry.revision):
        why = (
            f"the ResourceVersion in the precondition ({revision}) does not match the ResourceVersion in "
            f"record ({entry.revision}). The object might have been modified"
        )
        raise errors.conflict(what, entry.key.name, why)


def mark(registry: Registry, obj: Object, seconds: int) -> None:
    """A time of deletion that is set already stays; the grace becomes `seconds`."""
    metadata = obj["metadata"]
    if metadata.get("deletionGracePeriodSeconds") is None and metadata.get("generation"):
        metadata["generation"] += 1
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = timestamp(later(registry.services.environment.clock.now(), seconds))
    metadata["deletionGracePeriodSeconds"] = seconds


def _mark_graceful(registry: Registry, strategy: Strategy, obj: Object, options: Object) -> int:
    """Seconds are those of the strategy's grace, or what `_shorten` has left of it."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp"):
        mark(registry, obj, strategy.graceful_period(obj, options))
    seconds: int = metadata.get("deletionGracePeriodSeconds") or 0
    return seconds


def _has_had_its_grace(obj: Object) -> bool:
    """No grace is left to an object that is being deleted.

    It is still there because it has finalizers, or because the server ended between marking and removing it.
    """
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and not metadata.get("deletionGracePeriodSeconds")


def _shorten(registry: Registry, obj: Object, options: Object) -> bool:
    """The end of an object that is being deleted comes nearer; False if these options do not bring it."""
    if _has_had_its_grace(obj):
        return True
    metadata, asked = obj["metadata"], options.get("gracePeriodSeconds")
    granted = _not_negative(metadata["deletionGracePeriodSeconds"])
    if asked is None or _not_negative(asked) >= granted:
        return False
    wanted = _not_negative(asked)
    begun = later(parse_timestamp(metadata["deletionTimestamp"]), -granted)
    end = later(begun, wanted)
    if not registry.services.features.requests.ends_in_the_past:
        end = max(end, registry.services.environment.clock.now())
    metadata["deletionTimestamp"] = timestamp(end)
    metadata["deletionGracePeriodSeconds"] = wanted
    return True


def _not_negative(seconds: int) -> int:
    """Less than none means one second."""
    return 1 if seconds < 0 else seconds


def _set_finalizers(strategy: Strategy, obj: Object, options: Object) -> None:
    if strategy.default_propagation:
        _set_policy(obj, propagation(strategy, obj, options))
    else:
        _set_policy(obj, "")


def _set_policy(obj: Object, policy: str) -> None:
    old = obj["metadata"].get("finalizers") or []
    new = [name for name in old if name not in {ORPHAN, FOREGROUND}]
    new += {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    if set(new) == set(old):
        return
    if new:
        obj["metadata"]["finalizers"] = new
    else:
        obj["metadata"].pop("finalizers", None)


def propagation(strategy: Strategy, obj: Object, options: Object) -> str:
    """Background, Foreground or Orphan: as asked, else as the finalizers say, else as the kind does."""
    if options.get("orphanDependents") is not None:
        return "Orphan" if options["orphanDependents"] else "Background"
    if options.get("propagationPolicy"):
        return str(options["propagationPolicy"])
    finalizers = obj["metadata"].get("finalizers") or []
    for name, policy in ((ORPHAN, "Orphan"), (FOREGROUND, "Foreground")):
        if name in finalizers:
            return policy
    return strategy.default_propagation


async def _mark_kept(
    registry: Registry, entry: Entry, new: Object, options: Object, write: WriteRequest
) -> WriteResult:
    """A namespace is kept by its own spec, even when its deletion begins."""
    old_timestamp = new["metadata"].get("deletionTimestamp")
    if old_timestamp:
        return await _unchanged(registry, entry, new)
    new["metadata"]["deletionTimestamp"] = timestamp(registry.services.environment.clock.now())
    if policy := registry.strategy.policy_of_mark(options):
        _set_policy(new, policy)
    return await _commit_marked(registry, entry, new, write)


async def _commit_marked(registry: Registry, entry: Entry, new: Object, write: WriteRequest) -> WriteResult:
    registry.strategy.mark_deleted(new, registry.context(write))
    if new == registry.object(entry):
        return await _unchanged(registry, entry, new)
    return await commit(registry, entry.key, new, write, entry)


async def _unchanged(registry: Registry, entry: Entry, obj: Object) -> WriteResult:
    """The answer is the object as it is; raises RevisionMismatchError if it has become another one."""
    await confirm(registry.services.store, entry)
    return WriteResult(obj, entry.revision, entry.value)


async def _remove_marked(
    registry: Registry, entry: Entry, marked: WriteResult, write: WriteRequest
) -> WriteResult:
    """Changes meanwhile do not save an object that was marked without grace; if it is gone already, that is
    no error."""
    while True:
        current = registry.services.store.get(entry.key)
        if current is None or current.uid != entry.uid:
            return marked
        try:
            return await _remove(registry, current, registry.object(current), write)
        except RevisionMismatchError:
            await registry.services.store.refresh()


async def _remove(registry: Registry, entry: Entry, last: Object, write: WriteRequest) -> WriteResult:
    """`last` is the object as the client sees it go, at the revision of its end."""
    revision = entry.revision if write.dry_run else await commit_removal(registry, entry, write)
    last["metadata"]["resourceVersion"] = str(revision)
    return WriteResult(last, revision, None, deleted=True)
