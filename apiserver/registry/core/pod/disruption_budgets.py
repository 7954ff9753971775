"""Finds the disruption budget of a pod that is evicted, and decides whether it allows one more.

Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go (checkAndDecrement), 1.36.
"""

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import with_condition
from kubeskew.apimachinery.errors import GroupResource, StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.registry.generic import update as generic_update
from kubeskew.apiserver.registry.requests.scope import Scope
from kubeskew.apiserver.registry.requests.writes import write_of

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_KIND = GroupResource("policy", "poddisruptionbudget")
_CAUSE = "DisruptionBudget"
_MANAGER = "kube-apiserver"  # upstream writes the status through its own loopback client
_MOST_DISRUPTED = 2000
_RETRY_SECONDS = 10


def _too_many(message: str, retry_after: int) -> StatusError:
    details: Object = {"causes": [{"reason": _CAUSE, "message": message}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(429, "TooManyRequests", REFUSED, details)


def still_processed(name: str) -> StatusError:
    """Returns the answer while nobody can say whether the budget `name` would allow it."""
    return _too_many(f"The disruption budget {name} is still being processed by the server.", _RETRY_SECONDS)


class Budgets:
    """The budgets of the pods of one request's namespace."""

    def __init__(self, request: Request, services_scope: Scope) -> None:
        self._request = request
        services = services_scope.services
        found = services.table.resource("policy", "v1", "poddisruptionbudgets")
        if found is None:
            raise errors.unknown_path()
        self._scope = Scope(services, found, services.registry(found), "status")

    def of(self, pod: Object) -> list[Object]:
        """Returns the budgets that select the pod, by name."""
        labels = pod["metadata"].get("labels") or {}
        registry, namespace = self._scope.registry, pod["metadata"]["namespace"]
        page = self._scope.services.store.list(registry.resource.storage_resource, namespace)
        budgets = [registry.object(entry) for entry in page.entries]
        none = self._scope.services.features.pods.empty_budgets_select_none
        return [each for each in budgets if labels and _selects(each, labels, empty_selects_none=none)]

    async def take(self, name: str, pod: Object, *, dry_run: bool) -> None:
        """Uses one disruption of the budget. Raises 429 if none is left, 403 if the budget is broken."""
        request, scope = self._request, self._scope
        write = write_of(request, scope, dry_run=dry_run)
        write.admitted = True
        now = timestamp(scope.services.environment.clock.now())
        counts_alone = scope.services.features.pods.counts_alone

        async def transform(current: Object | None) -> Object:
            if current is None:
                raise errors.not_found(scope.registry.resource.group_resource, name)
            live = scope.services.codec.convert(current, scope.resource)
            new = _decremented(live, pod["metadata"]["name"], now, counts_alone=counts_alone)
            if dry_run:
                return current
            manager = scope.registry.field_manager.update(
                live, new, _MANAGER, "status", now, reset=scope.registry.reset_fields(write)
            )
            return scope.services.codec.convert(manager, scope.registry.resource)

        await generic_update.update(scope.registry, name, transform, write)


def _selects(budget: Object, labels: dict[str, str], *, empty_selects_none: bool) -> bool:
    """Returns whether the budget selects the pod: an empty selector selects all, a missing or broken one
    none."""
    selector = (budget.get("spec") or {}).get("selector")
    if empty_selects_none and not any((selector or {}).values()):
        return False
    try:
        return selector is not None and LabelSelector.from_object(selector).matches(labels)
    except ValueError:
        return False


def _decremented(budget: Object, pod_name: str, now: str, *, counts_alone: bool) -> Object:
    """Returns the budget with one disruption less, which is noted for the controller. Raises 403 and 429."""
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
        raise _too_many(_why_none(name, status, counts_alone=counts_alone), 0)
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        status["conditions"] = _exhausted(status, now)
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod_name: now}
    return {**budget, "status": status}


def _why_none(name: str, status: Object, *, counts_alone: bool) -> str:
    """Returns why no disruption is left; where `counts_alone`, by the numbers of pods in any case."""
    wanted, present = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
    refusal = f"The disruption budget {name} does not allow evicting pods currently"
    found: Object = next(
        (each for each in status.get("conditions") or () if each["type"] == "DisruptionAllowed"), {}
    )
    message = found.get("message") if found.get("status") == "False" else ""
    if not counts_alone and message and found.get("reason") == "SyncFailed":
        return f"{refusal} because it failed sync: {message}"
    if counts_alone or present <= wanted:
        return f"The disruption budget {name} needs {wanted} healthy pods and has {present} currently"
    return f"{refusal} ({found.get('reason')}): {message}" if message else refusal


def _exhausted(status: Object, now: str) -> list[Object]:
    """Returns the conditions once no disruption is left."""
    new: Object = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
    }
    new |= {"observedGeneration": status.get("observedGeneration") or 0, "lastTransitionTime": now}
    return with_condition(status.get("conditions") or (), new)
