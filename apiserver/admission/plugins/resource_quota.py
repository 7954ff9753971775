"""Refuses writes that would use more than the quotas of a namespace allow.

Writes of one namespace that come together are decided together, in their order, and charged with one change
per quota. The change is stored only if the quota is still the one that was read: else all are decided again.

Source: k8s.io/apiserver/pkg/admission/plugin/resourcequota (admission.go, controller.go), 1.36.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quota.amounts import amounts
from kubeskew.apimachinery.quota.claims import ClaimFacts, DeviceClasses
from kubeskew.apimachinery.quota.evaluators import Evaluator
from kubeskew.apimachinery.quota.registry import IGNORED, Evaluators
from kubeskew.apiserver.admission import CREATE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.admission.plugins.quota_evaluator import QuotaError, QuotaRequest, check
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.caching.store_cache import DerivedFromStore, ParsedObjects
from kubeskew.apiserver.storage.records import Key

_RESOURCE = "resourcequotas"
_CLAIMS = "resourceclaims.resource.k8s.io"
_ATTEMPTS = 4
_REMEMBERED = 1000


@dataclass(slots=True, eq=False)
class _Waiter:
    attributes: Attributes
    asked: QuotaRequest
    evaluator: Evaluator
    decided: asyncio.Future[None]

    def admit(self) -> None:
        if not self.decided.done():
            self.decided.set_result(None)

    def refuse(self, error: Exception) -> None:
        if not self.decided.done():
            self.decided.set_exception(error)


class ResourceQuota(Plugin):
    """Looks at every write in a namespace that has quotas."""

    waits = True
    operations = frozenset({CREATE, UPDATE})
    subresources = None

    def __init__(self, services: AdmissionServices) -> None:
        self._services = services
        self._store = services.store
        environment = services.environment
        self._evaluators = Evaluators(environment.gates, environment.clock, claim_facts(services))
        self._parsed = ParsedObjects(_REMEMBERED)
        self._waiting: dict[str, list[_Waiter]] = {}
        self._deciding: dict[str, asyncio.Task[None]] = {}

    async def validate(self, attributes: Attributes) -> None:
        namespace, new = attributes.namespace, attributes.object
        resource = attributes.resource
        if not namespace or new is None or not resource.namespaced or resource.storage_resource in IGNORED:
            return
        if not self._store.list(_RESOURCE, namespace, limit=1).entries:
            return
        evaluator = self._evaluators.of(resource.group_resource)
        asked = QuotaRequest(attributes.operation, attributes.subresource, new, attributes.old)
        if not evaluator.handles(asked.operation, asked.subresource, new, asked.old):
            return
        decided = asyncio.get_running_loop().create_future()
        waiter = _Waiter(attributes, asked, evaluator, decided)
        self._waiting.setdefault(namespace, []).append(waiter)
        if namespace not in self._deciding:
            task = asyncio.create_task(self._decide_all(namespace), name=f"quota of {namespace}")
            self._deciding[namespace] = task
        await decided

    async def _decide_all(self, namespace: str) -> None:
        """Runs until no write waits, those included that come meanwhile."""
        try:
            while waiting := self._waiting.pop(namespace, []):
                try:
                    await self._decide(namespace, waiting)
                except Exception as error:
                    for waiter in waiting:
                        waiter.refuse(error)
        finally:
            del self._deciding[namespace]

    async def _decide(self, namespace: str, waiting: Sequence[_Waiter]) -> None:
        names: Collection[str] | None = None  # of the quotas still to be charged; None: all
        error: StatusError | None = None
        for _ in range(_ATTEMPTS):
            before = self._quotas(namespace, names)
            after, waiting = _fit(before, waiting)
            names, error = set(), None
            for old, new in zip(before, after, strict=True):
                if _differ(old, new):
                    try:
                        await self._services.write_used_quota(old, new["status"]["used"])
                    except StatusError as refused:
                        names.add(old["metadata"]["name"])
                        error = refused
            if error is None:
                break
            await self._store.refresh()
        for waiter in waiting:
            waiter.refuse(error) if error else waiter.admit()

    def _quotas(self, namespace: str, names: Collection[str] | None) -> list[Object]:
        entries = self._store.list(_RESOURCE, namespace).entries
        return [self._parsed.of(entry) for entry in entries if names is None or entry.key.name in names]


def _fit(quotas: list[Object], waiting: Sequence[_Waiter]) -> tuple[list[Object], list[_Waiter]]:
    """Quotas come back with everything that fits; the writes wait for these to be stored.

    What does not fit is refused; what changes no quota, or is a dry run, is admitted.
    """
    charged = []
    for waiter in waiting:
        try:
            after = check(quotas, waiter.asked, waiter.evaluator)
        except QuotaError as error:
            waiter.refuse(waiter.attributes.refuse(str(error)))
            continue
        if waiter.attributes.dry_run or not any(map(_differ, quotas, after)):
            waiter.admit()
        else:
            charged.append(waiter)
            quotas = after
    return quotas, charged


def _differ(one: Object, other: Object) -> bool:
    if one is other:
        return False
    return amounts(one["status"].get("used")) != amounts(other["status"].get("used"))


def claim_facts(services: AdmissionServices) -> ClaimFacts:
    store, read = services.store, services.codec.current
    classes = DerivedFromStore(store, ["deviceclasses.resource.k8s.io"], DeviceClasses.of, read)

    def pod(namespace: str, name: str) -> Object | None:
        entry = store.get(Key("pods", namespace, name))
        return read(entry.value, entry.revision) if entry else None

    def claims(namespace: str) -> list[Object]:
        return [read(entry.value, entry.revision) for entry in store.list(_CLAIMS, namespace).entries]

    return ClaimFacts(classes.get, pod, claims)
