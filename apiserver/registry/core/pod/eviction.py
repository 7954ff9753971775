"""Evicts a pod: a delete that a disruption budget may forbid, which is found and counted down.

Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go, 1.36.
"""

from kubeskew.apimachinery import errors, field
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import find_condition, is_condition_true, with_condition
from kubeskew.apimachinery.errors import (
    GroupKind,
    GroupResource,
    StatusError,
    bad_request,
    invalid,
    not_found,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apimachinery.selectors.labels import selector_or_nothing
from kubeskew.apiserver.admission import CREATE
from kubeskew.apiserver.features import PodFeatures
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.core.pod.binding import SUCCESS
from kubeskew.apiserver.registry.generic import delete as generic_delete
from kubeskew.apiserver.registry.generic import update as generic_update
from kubeskew.apiserver.registry.generic.registry import WriteRequest, WriteResult, commit, guaranteed_update
from kubeskew.apiserver.registry.requests.scope import (
    Scope,
    attributes_of,
    delete_options_schema,
    read_other,
    write_of,
)
from kubeskew.apiserver.storage.encoding import dumps
from kubeskew.apiserver.storage.records import Entry
from kubeskew.apiserver.unreadable import UNSAFE

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_KIND = GroupResource("policy", "poddisruptionbudget")
_CAUSE = "DisruptionBudget"
_MANAGER = "kube-apiserver"  # upstream writes the status through its own loopback client
_MOST_DISRUPTED = 2000
_RETRY_SECONDS = 10
_EVICTION = GroupKind("policy", "Eviction")
_TOO_MANY = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_REASON = "EvictionByEvictionAPI"
_MESSAGE = "Eviction API: evicting"
_TRIES = 20


def _too_many(message: str, retry_after: int) -> StatusError:
    details: Object = {"causes": [{"reason": _CAUSE, "message": message}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(429, "TooManyRequests", REFUSED, details)


def still_processed(name: str) -> StatusError:
    """Evictions get this answer until the controller has processed the budget `name`."""
    return _too_many(f"The disruption budget {name} is still being processed by the server.", _RETRY_SECONDS)


class Budgets:
    """Budgets are those of the namespace of one request."""

    def __init__(self, request: Request, services_scope: Scope) -> None:
        self._request = request
        services = services_scope.services
        found = services.table.resource("policy", "v1", "poddisruptionbudgets")
        if found is None:
            raise errors.unknown_path()
        self._scope = Scope(services, found, services.registry(found), "status")

    def of(self, pod: Object) -> list[Object]:
        labels = pod["metadata"].get("labels") or {}
        registry, namespace = self._scope.registry, pod["metadata"]["namespace"]
        page = self._scope.services.store.list(registry.resource.storage_resource, namespace)
        budgets = [registry.object(entry) for entry in page.entries]
        none = self._scope.services.features.pods.empty_budgets_select_none
        return [each for each in budgets if labels and _selects(each, labels, empty_selects_none=none)]

    async def take(self, name: str, pod: Object, *, dry_run: bool) -> None:
        """One disruption of the budget is used. Raises 429 if none is left, 403 if the budget is broken."""
        request, scope = self._request, self._scope
        write = write_of(request, scope, dry_run=dry_run)
        write.admitted = True
        now = timestamp(scope.services.environment.clock.now())
        refusals_by_counts = scope.services.features.pods.refusals_by_counts

        async def transform(current: Object | None) -> Object:
            if current is None:
                raise errors.not_found(scope.registry.resource.group_resource, name)
            live = scope.services.codec.convert(current, scope.resource)
            new = _decremented(live, pod["metadata"]["name"], now, refusals_by_counts=refusals_by_counts)
            if dry_run:
                return current
            manager = scope.registry.field_manager.update(
                live, new, _MANAGER, "status", now, reset=scope.registry.reset_fields(write)
            )
            return scope.services.codec.convert(manager, scope.registry.resource)

        await generic_update.update(scope.registry, name, transform, write)


def _selects(budget: Object, labels: dict[str, str], *, empty_selects_none: bool) -> bool:
    """A missing or broken selector selects no pod, an empty one all of them, unless `empty_selects_none`."""
    selector = (budget.get("spec") or {}).get("selector")
    if empty_selects_none and not any((selector or {}).values()):
        return False
    return selector_or_nothing(selector).matches(labels)


def _decremented(budget: Object, pod_name: str, now: str, *, refusals_by_counts: bool) -> Object:
    """One disruption is taken from the budget and noted for the controller. Raises 403 and 429."""
    metadata, status = budget["metadata"], dict(budget.get("status") or {})
    name, allowed = metadata["name"], status.get("disruptionsAllowed") or 0
    if (status.get("observedGeneration") or 0) < (metadata.get("generation") or 0):
        raise still_processed(name)
    if allowed < 0:
        raise errors.forbidden(_KIND, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise errors.forbidden(_KIND, name, why)
    if allowed == 0:
        raise _too_many(_why_none(name, status, refusals_by_counts=refusals_by_counts), 0)
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        status["conditions"] = _exhausted(status, now)
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod_name: now}
    return {**budget, "status": status}


def _why_none(name: str, status: Object, *, refusals_by_counts: bool) -> str:
    """`refusals_by_counts`: the numbers of pods are the reason in any case."""
    wanted, present = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
    refusal = f"The disruption budget {name} does not allow evicting pods currently"
    found = find_condition({"status": status}, "DisruptionAllowed") or {}
    message = found.get("message") if found.get("status") == "False" else ""
    if not refusals_by_counts and message and found.get("reason") == "SyncFailed":
        return f"{refusal} because it failed sync: {message}"
    if refusals_by_counts or present <= wanted:
        return f"The disruption budget {name} needs {wanted} healthy pods and has {present} currently"
    return f"{refusal} ({found.get('reason')}): {message}" if message else refusal


def _exhausted(status: Object, now: str) -> list[Object]:
    new: Object = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
    }
    new |= {"observedGeneration": status.get("observedGeneration") or 0, "lastTransitionTime": now}
    return with_condition(status.get("conditions") or (), new)


def _schema(metadata: Schema, options: Schema) -> Schema:
    text = Schema(Kind.STRING)
    fields = {"apiVersion": Field(text), "kind": Field(text), "metadata": Field(metadata)}
    fields["deleteOptions"] = Field(options, pointer=True)
    return Schema(Kind.OBJECT, name="io.k8s.api.policy.v1.Eviction", fields=fields)


async def evict(request: Request, scope: Scope) -> Response:
    """POST of an Eviction answers a Status. Raises 429 while a budget forbids it."""
    options = parameters.write_options(request, "CreateOptions")
    schema = _schema(scope.resource.schema.fields["metadata"].schema, delete_options_schema(scope))
    target = scope.resource.subresources["eviction"]
    eviction = await read_other(request, scope, target, schema, options.field_validation)
    attributes = attributes_of(request, scope, CREATE, eviction, dry_run=options.dry_run)
    await scope.services.admission.admit(attributes)
    if (eviction.get("metadata") or {}).get("name", "") != request.info.name:
        raise bad_request("name in URL does not match name in Eviction object")
    how = _delete_options(request, eviction, dry_run=options.dry_run)
    await scope.services.admission.validate(attributes)
    await Eviction(request, scope, how).run()
    return Response(201, dumps(SUCCESS) + b"\n")


def _delete_options(request: Request, eviction: Object, *, dry_run: bool) -> Object:
    """`dry_run` is the value of the request's own parameter."""
    given = eviction.get("deleteOptions") or {}
    if given.get(UNSAFE):
        why = "can not be set for pod eviction, try after removing the option"
        raise invalid(_EVICTION, request.info.name, [field.invalid(f"deleteOptions.{UNSAFE}", True, why)])
    how = {name: value for name, value in given.items() if name not in {"kind", "apiVersion"}}
    if how:
        how = parameters.delete_options(request, how)
    if dry_run and not how.get("dryRun"):
        how["dryRun"] = ["All"]
    return how


class Eviction:
    """Evicts one pod, once."""

    def __init__(self, request: Request, scope: Scope, how: Object) -> None:
        self._request, self._scope, self._how = request, scope, how
        self._name = request.info.name
        self._dry_run = bool(how.get("dryRun"))
        self._pinned = bool((how.get("preconditions") or {}).get("resourceVersion"))
        self._budget = ""

    async def run(self) -> None:
        await self._scope.services.store.refresh()
        for tries_left in reversed(range(_TRIES)):
            pod = self._pod()
            if not _needs_no_budget(pod):
                break
            try:
                await self._delete(self._for(pod, pin=not _has_ended(pod)))
            except StatusError as error:
                if error.code != 409 or self._pinned or not tries_left:
                    raise
                continue
            return
        try:
            await self._delete(self._for(pod, pin=await self._ask(pod)))
        except StatusError as error:
            if error.code == 409 and self._budget and not self._pinned:
                raise still_processed(self._budget) from error
            raise

    def _pod(self) -> Object:
        registry = self._scope.registry
        return registry.object(registry.entry(self._request.info.namespace, self._name))

    async def _ask(self, pod: Object) -> bool:
        """True means that the budget's permission is valid only for the pod as it is now."""
        budgets = Budgets(self._request, self._scope)
        found = budgets.of(pod)
        if len(found) > 1:
            raise StatusError(500, "", _TOO_MANY)
        if not found:
            return False
        (budget,) = found
        name = budget["metadata"]["name"]
        features = self._scope.services.features.pods
        if not is_condition_true(pod, "Ready") and _lets_unhealthy_go(budget, features):
            self._budget = name
            return True
        await budgets.take(name, pod, dry_run=self._dry_run)
        return False

    def _for(self, pod: Object, *, pin: bool) -> Object:
        """The delete is pinned to the pod as it was read, unless the client says otherwise."""
        if not pin or self._pinned:
            return self._how
        preconditions = {**(self._how.get("preconditions") or {})}
        preconditions["resourceVersion"] = pod["metadata"]["resourceVersion"]
        return {**self._how, "preconditions": preconditions}

    async def _delete(self, how: Object) -> None:
        """The pod's status gets the condition of the eviction first."""
        registry, features = self._scope.registry, self._scope.services.features.pods
        careless = features.marks_in_dry_run
        if features.disruption_condition and (careless or not self._dry_run):
            marked = await self._mark({} if careless else how)
            preconditions = how.get("preconditions") or {}
            if preconditions.get("resourceVersion") and not careless:
                how = {**how, "preconditions": {**preconditions, "resourceVersion": str(marked.revision)}}
        await generic_delete.delete(registry, self._name, how, self._write())

    async def _mark(self, how: Object) -> WriteResult:
        registry, namespace = self._scope.registry, self._request.info.namespace
        now = timestamp(self._scope.services.environment.clock.now())

        async def attempt(entry: Entry | None) -> WriteResult:
            if entry is None:
                raise not_found(registry.resource.group_resource, self._name)
            generic_delete.check_preconditions(registry, entry, how)
            pod = registry.object(entry)
            if not _set_target(pod, now):
                return WriteResult(pod, entry.revision, entry.value)
            write = self._write()
            write.dry_run = False  # a dry run marks the pod all the same
            return await commit(registry, entry.key, pod, write, entry)

        return await guaranteed_update(registry.services.store, registry.key(namespace, self._name), attempt)

    def _write(self) -> WriteRequest:
        write = write_of(self._request, self._scope, dry_run=self._dry_run)
        write.subresource, write.admitted = "", True
        return write


def _set_target(pod: Object, now: str) -> bool:
    """False means that the pod has the condition already, which has no generation."""
    status = pod.setdefault("status", {})
    new: Object = {"type": "DisruptionTarget", "status": "True", "reason": _REASON, "message": _MESSAGE}
    new |= {"lastProbeTime": None, "lastTransitionTime": now}
    before = status.get("conditions") or []
    status["conditions"] = with_condition(before, new)
    return bool(status["conditions"] != before)


def _has_ended(pod: Object) -> bool:
    return is_terminal(pod) or bool(pod["metadata"].get("deletionTimestamp"))


def _needs_no_budget(pod: Object) -> bool:
    return _has_ended(pod) or (pod.get("status") or {}).get("phase") == "Pending"


def _lets_unhealthy_go(budget: Object, features: PodFeatures) -> bool:
    status = budget.get("status") or {}
    asked = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    if asked and features.unhealthy_eviction:
        return True
    desired = status.get("desiredHealthy") or 0
    return desired > 0 and (status.get("currentHealthy") or 0) >= desired
