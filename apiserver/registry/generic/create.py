"""Creates an object.

Source: k8s.io/apiserver/pkg/registry/generic/registry/store.go (Create) and registry/rest/create.go, 1.36.
"""

from functools import partial

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.errors import StatusError, forbidden
from kubeskew.apimachinery.go_formats import parse_uint
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import admission
from kubeskew.apiserver.apiextensions.table import takes_nothing_new
from kubeskew.apiserver.authorization import refusal
from kubeskew.apiserver.caching.offload import offload
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.registry.generic import checks
from kubeskew.apiserver.registry.generic.checks import deduplicate
from kubeskew.apiserver.registry.generic.registry import Registry, WriteRequest, WriteResult, commit
from kubeskew.apiserver.storage.encoding import copied
from kubeskew.apiserver.storage.interfaces import RevisionMismatchError
from kubeskew.apiserver.storage.records import Entry
from kubeskew.apiserver.unreadable import UnreadableError, decoded

_NAME_ATTEMPTS = 8  # for a generated name, with gate RetryGenerateName


async def create(registry: Registry, obj: Object, write: WriteRequest) -> WriteResult:
    """`obj` is decoded, in the hub version, its system metadata wiped; raises 409 if it exists.

    Mutating admission sees the object once; what follows begins again with another name where a generated one
    is taken.
    """
    services = registry.services
    name = obj["metadata"].get("name") or ""
    _check_definition(registry, write, name)
    await services.admission.admit(registry.attributes(admission.CREATE, write, name, obj, None))
    await offload(write.size, partial(deduplicate, obj, write.warnings, mutated=True))
    metadata = obj["metadata"]  # admission may have replaced it
    if metadata.get("name") or not metadata.get("generateName"):
        return await _create(registry, obj, write)
    if not services.features.requests.retries_names:
        return await _create(registry, obj, write)
    for _ in range(_NAME_ATTEMPTS - 1):  # copies have no maps in common, such as a Job's labels
        try:
            return await _create(registry, copied(obj), write)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
    return await _create(registry, copied(obj), write)


def _check_definition(registry: Registry, write: WriteRequest, name: str) -> None:
    """The definition of a custom resource takes nothing new while it is being deleted: 403
    (customresource_handler.go, forbidCreateAdmission). Up to 1.33 only requests to create are refused, before
    they get here."""
    features = registry.services.features.requests
    if not features.applies_while_terminating and takes_nothing_new(registry.resource, features):
        why = "create not allowed while custom resource definition is terminating"
        raise errors.forbidden(registry.requested_resource(write), name, why)


async def _create(registry: Registry, obj: Object, write: WriteRequest) -> WriteResult:
    check = partial(before_create, registry, obj, write)
    store = partial(_admit_and_commit, registry, obj, write)
    return await registry.check_and_commit(obj, registry.effort(write), check, store)


async def _admit_and_commit(registry: Registry, obj: Object, write: WriteRequest) -> WriteResult:
    """Validating admission sees the checked object before it is stored."""
    metadata, services = obj["metadata"], registry.services
    if write.verb != "create":
        _check_right(registry, write, metadata["name"])
    await services.admission.validate(
        registry.attributes(admission.CREATE, write, metadata["name"], obj, None)
    )
    if not write.dry_run:  # the check is in upstream's store, which a dry run does not reach
        _check_no_revision(metadata)
    checks.as_stored(obj, registry.resource)
    key = registry.key(write.namespace, metadata["name"])
    try:
        return await commit(registry, key, obj, write, None)
    except RevisionMismatchError as conflict:
        raise _exists(registry, conflict.current, metadata, write) from None


def _check_right(registry: Registry, write: WriteRequest, name: str) -> None:
    """Updates and applies that create need the right to create too; raises 403 (withAuthorization in
    handlers/update.go)."""
    resource = write.requested or registry.resource
    group, version = resource.gvk[:2]
    info = RequestInfo(
        True, "", "create", group, version, resource.plural, write.subresource, write.namespace, name
    )
    decision = registry.services.authorizer.authorize(write.user, info)
    if decision.allowed:
        return
    if registry.services.features.requests.refuses_creation_without_words:
        raise forbidden(resource.group_resource, name, decision.reason)
    raise refusal(write.user, info, decision.reason)


def _check_no_revision(metadata: Object) -> None:
    """A new object that names a revision raises 500, as upstream; what is no number is only dropped."""
    revision = metadata.pop("resourceVersion", "")
    if not revision:
        return
    try:
        wrong = parse_uint(revision) != 0
    except ValueError:
        return
    if wrong:
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")


def before_create(registry: Registry, obj: Object, write: WriteRequest) -> None:
    """Mutating admission has seen the object, which is completed and checked (rest.BeforeCreate); raises
    422."""
    ctx = registry.context(write)
    strategy = registry.strategy
    metadata = obj["metadata"]
    metadata["creationTimestamp"] = timestamp(ctx.now)
    metadata["uid"] = ctx.entropy.uid()
    if registry.resource.namespaced:
        metadata["namespace"] = write.namespace
    else:
        metadata.pop("namespace", None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = strategy.generated_name(metadata["generateName"], ctx.entropy.suffix())
    strategy.prepare_for_create(obj, ctx)
    if strategy.counts_generation(ctx) and strategy.first_generation:
        metadata["generation"] = strategy.first_generation
    checks.drop_disabled_fields(obj, None, ctx)
    checks.complete(obj, ctx.resource)
    checks.check_new(strategy, obj, ctx)
    write.warnings.extend(strategy.warnings(obj, ctx))


def _exists(registry: Registry, current: Entry | None, metadata: Object, write: WriteRequest) -> StatusError:
    """409; a name counts as generated if the client asked for a generated one as well, as upstream."""
    error = errors.already_exists(registry.requested_resource(write), metadata["name"])
    if metadata.get("generateName"):
        error.message += ", the server was not able to generate a unique name for the object"
        error.details = {**(error.details or {}), "retryAfterSeconds": 1}
    if current is not None and _is_ending(current.value):
        error.message = f"object is being deleted: {error.message}"
    return error


def _is_ending(value: bytes) -> bool:
    # Objects that do not name the field anywhere need not be decoded.
    if b'"deletionTimestamp"' not in value:
        return False
    try:
        return bool(decoded(value)["metadata"].get("deletionTimestamp"))
    except UnreadableError:
        return False
