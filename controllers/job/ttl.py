"""The TTL-after-finished controller: deletes finished jobs when their time is over.

Behaviour of k8s.io/kubernetes/pkg/controller/ttlafterfinished, 1.36.
"""

from kubeskew.apimachinery.client.refs import JOBS
from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key
from kubeskew.controllers.job import conditions


class TTLAfterFinishedController(Controller):
    name = "ttl-after-finished-controller"
    component = "ttl-after-finished-controller"
    queue_name = "ttl_jobs_to_delete"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._jobs = context.informer(JOBS)
        self._jobs.add_handler(self._changed, lambda _, new: self._changed(new))

    def _changed(self, job: Object) -> None:
        if self._seconds_left(job) is not None:
            self.enqueue(job)

    def _seconds_left(self, job: Object) -> float | None:
        """None if the job stays."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or job["metadata"].get("deletionTimestamp"):
            return None
        for condition in (job.get("status") or {}).get("conditions") or ():
            if (
                condition["type"] in (conditions.COMPLETE, conditions.FAILED)
                and condition["status"] == "True"
            ):
                since = parse_timestamp(condition["lastTransitionTime"])
                return float(ttl) - (self.clock.now() - since).total_seconds()
        return None

    async def sync(self, key: Key) -> None:
        job = self._jobs.get(*key)
        left = self._seconds_left(job) if job is not None else None
        if left is None:
            return
        if left > 0:
            self.queue.add_after(key, left)
            return
        try:
            # Read again: the time may have been extended meanwhile.
            fresh = await self.client.get(JOBS, key.name, key.namespace)
            left = self._seconds_left(fresh)
            if left is None:
                return
            if left > 0:
                self.queue.add_after(key, left)
                return
            uid = fresh["metadata"]["uid"]
            await self.client.delete(
                JOBS, key.name, key.namespace, propagation="Foreground", preconditions={"uid": uid}
            )
        except StatusError as error:
            if error.code != 404:
                raise
