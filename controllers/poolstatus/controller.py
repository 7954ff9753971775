"""The loop of pool status requests: answers each once; deletes answered ones after an hour, others after a
day.

Behaviour of k8s.io/kubernetes/pkg/controller/resourcepoolstatusrequest, 1.36 and 1.37.
"""

import logging
from collections.abc import Coroutine
from datetime import datetime
from typing import Any

from kubeskew.apimachinery.client.refs import POOL_STATUS_REQUESTS, dra_refs, taint_rules_ref
from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, SyncError
from kubeskew.controllers.poolstatus.features import PoolStatusFeatures
from kubeskew.controllers.poolstatus.metrics import RequestMetrics
from kubeskew.controllers.poolstatus.pools import MAX_ERROR_BYTES, PoolView, pool_views
from kubeskew.controllers.poolstatus.summaries import SummaryError, partition_summary, shareable_summary

log = logging.getLogger(__name__)

_MAX_RETRIES = 5
_CLEANUP_SECONDS = 600.0
_ANSWERED_SECONDS, _UNANSWERED_SECONDS = 3600.0, 24 * 3600.0
_DEFAULT_LIMIT = 100


class PoolStatusController(Controller):
    name = "resourcepoolstatusrequest-controller"
    component = "resourcepoolstatusrequest-controller"
    queue_name = None  # it is made without a name
    default_workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        version = context.environment.version
        self._features = features = PoolStatusFeatures.of(version, context.environment.gates)
        refs = dra_refs(version)
        self._requests = context.informer(POOL_STATUS_REQUESTS)
        self._slices, self._claims = context.informer(refs.slices), context.informer(refs.claims)
        rules_ref = taint_rules_ref(version)
        self._rules = context.informer(rules_ref) if features.device_taint_rules else None
        self._metrics = RequestMetrics(context.registry)
        self._requests.add_handler(self._requested, lambda _, new: self._requested(new))

    def _requested(self, request: Object) -> None:
        if request.get("status") is None:
            self.enqueue(request)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._clean_up()]

    async def stop(self) -> None:
        self._metrics.close()
        await super().stop()

    async def sync(self, key: Key) -> None:
        """Answers a request; waits a few times for a pool whose driver is still publishing."""
        request = self._requests.get(*key)
        if request is None or request.get("status") is not None:
            return
        begun, driver = self.clock.monotonic(), request["spec"]["driver"]
        spec = request["spec"]
        views = pool_views(self._slices.list(), self._claims.list(), driver, spec.get("poolName") or "")
        if any(view.incomplete() for view in views[: spec.get("limit") or _DEFAULT_LIMIT]):
            if self._tries_again(key):
                raise SyncError("incomplete pools detected, requeueing")
            return
        try:
            await self.client.update(
                POOL_STATUS_REQUESTS, {**request, "status": self._status(spec, views)}, "status"
            )
        except StatusError:
            self._metrics.failed(driver)
            if self._tries_again(key):
                raise
        finally:
            self._metrics.processed(driver, self.clock.monotonic() - begun)

    def _tries_again(self, key: Key) -> bool:
        """Returns whether a request that cannot be answered yet has tries left."""
        if self.queue.requeues(key) < _MAX_RETRIES:
            return True
        log.info("%s: dropping %s after %d tries", self.name, key, _MAX_RETRIES)
        return False

    def _status(self, spec: Object, views: list[PoolView]) -> Object:
        rules = self._rules.list() if self._rules is not None else ()
        default = spec.get("defaultPartitionTypeAttribute") or ""
        limit = spec.get("limit") or _DEFAULT_LIMIT
        by_device = self._features.counts_devices
        pools = [
            {**view.status(rules, counts_devices=by_device), **self._summaries(view, default)}
            for view in views[:limit]
        ]
        flawed = sum("validationError" in pool for pool in pools)
        message = f"Calculated status for {len(pools)} pools" + (f" ({flawed} incomplete)" if flawed else "")
        condition = {
            "type": "Complete",
            "status": "True",
            "lastTransitionTime": timestamp(self.clock.now()),
            "reason": "CalculationComplete",
            "message": message,
        }
        status: Object = {"poolCount": len(views), "conditions": [condition]}
        return {**status, "pools": pools} if pools else status

    def _summaries(self, view: PoolView, default: str) -> Object:
        if not self._features.summaries:
            return {}
        found: Object = {}
        try:
            partitions, shared = partition_summary(view, default), shareable_summary(view)
        except SummaryError as error:
            return {"validationError": str(error)[:MAX_ERROR_BYTES]}
        if partitions:
            found["partitionSummary"] = partitions
        if shared is not None:
            found["shareableSummary"] = shared
        return found

    async def _clean_up(self) -> None:
        while True:
            for request in self._requests.list():
                if self._is_old(request):
                    await self._remove(request)
            await self.clock.sleep(_CLEANUP_SECONDS)

    def _is_old(self, request: Object) -> bool:
        created = request["metadata"].get("creationTimestamp")
        if request.get("status") is None:
            return self._is_past(created, _UNANSWERED_SECONDS)
        conditions = request["status"].get("conditions") or ()
        ended = [condition for condition in conditions if condition["type"] in ("Complete", "Failed")]
        return self._is_past(ended[0]["lastTransitionTime"] if ended else created, _ANSWERED_SECONDS)

    def _is_past(self, time: str | None, seconds: float) -> bool:
        now: datetime = self.clock.now()
        return bool(time) and (now - parse_timestamp(time or "")).total_seconds() > seconds

    async def _remove(self, request: Object) -> None:
        metadata = request["metadata"]
        try:
            await self.client.delete(
                POOL_STATUS_REQUESTS, metadata["name"], preconditions={"uid": metadata["uid"]}
            )
        except StatusError as error:
            if error.code != 404:
                log.info("%s: cannot delete %s: %s", self.name, metadata["name"], error)
