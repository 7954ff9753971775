"""The cron job controller's loop. Behaviour of k8s.io/kubernetes/pkg/controller/cronjob, 1.36."""

import copy
from collections.abc import Sequence
from datetime import tzinfo

from kubeskew.apimachinery import cron
from kubeskew.apimachinery.client.refs import CRON_JOBS, JOBS
from kubeskew.apimachinery.cron import CronError
from kubeskew.apimachinery.objects import Object, controller_of, is_resync
from kubeskew.controllers.cronjob.features import CronJobFeatures
from kubeskew.controllers.cronjob.run import Run, seconds_to_next
from kubeskew.controllers.framework import owner_references
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, key_of
from kubeskew.controllers.framework.owner_references import Dependents, OwnerMatch


class CronJobController(Controller):
    name = "cronjob-controller"
    component = "cronjob-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._features = CronJobFeatures.of(context.environment.gates)
        self._cron_jobs = context.informer(CRON_JOBS)
        self._jobs = context.informer(JOBS)
        self._jobs_by_owner = Dependents(self._jobs, CRON_JOBS.kind, OwnerMatch.UID_IN_NAMESPACE)
        if self._features.owner_by_name:
            self._jobs.add_index("controller's name", _controller_names)
        self._cron_jobs.add_handler(self.enqueue, self._updated, self.enqueue)
        self._jobs.add_handler(self._job_changed, self._job_updated, self._job_changed)

    def _updated(self, old: Object, new: Object) -> None:
        """Waits after a change of the schedule for its next time; any other change is looked at now."""
        spec = new["spec"]
        if all(old["spec"].get(name) == spec.get(name) for name in ("schedule", "timeZone")):
            self.enqueue(new)
            return
        try:
            schedule = cron.parse(spec["schedule"], _location(spec.get("timeZone") or ""))
        except CronError:
            text = f"unparseable schedule for cronjob: {spec['schedule']}"
            self.recorder.event(new, "Warning", "UnParseableCronJobSchedule", text)
            return
        seconds = seconds_to_next(new, schedule, self.clock.now(), even=self._features.even_schedules)
        if seconds is not None:
            self.queue.add_after(key_of(new), seconds)

    def _job_changed(self, job: Object) -> None:
        owner = owner_references.resolve_controller(job, CRON_JOBS, self._cron_jobs.get)
        if owner is not None:
            self.enqueue(owner)

    def _job_updated(self, old: Object, new: Object) -> None:
        if is_resync(old, new):
            return
        self._job_changed(new)
        if controller_of(old) != controller_of(new):
            self._job_changed(old)

    async def sync(self, key: Key) -> None:
        found = self._cron_jobs.get(*key)
        if found is None:
            return
        run = Run(
            self.client,
            self.recorder,
            copy.deepcopy(found),
            self._jobs_of(found),
            self.clock.now(),
            annotates=self._features.scheduled_annotation,
            overlooks_made_jobs=self._features.overlooks_made_jobs,
            loses_made_jobs=self._features.loses_made_jobs,
            even_schedules=self._features.even_schedules,
        )
        try:
            await self._reconcile(run)
        finally:
            if run.status != (found.get("status") or {}):
                await self.client.update(CRON_JOBS, {**found, "status": run.status}, "status")
        if run.again is not None:
            self.queue.add_after(key, run.again)

    def _jobs_of(self, cron_job: Object) -> Sequence[Object]:
        metadata = cron_job["metadata"]
        if self._features.owner_by_name:
            return self._jobs.by_index("controller's name", f"{metadata['namespace']}/{metadata['name']}")
        return self._jobs_by_owner.of(cron_job)

    async def _reconcile(self, run: Run) -> None:
        """Cleans up first, then starts what is due, because old jobs may use up a quota.

        Jobs deleted by the clean-up leave the list of active jobs, so that their end is not reported.
        """
        if self._features.failure_skips_clean_up:
            await run.go()
            await run.clean_up()
        else:
            await run.clean_up()
            await run.go()


def _location(zone: str) -> tzinfo:
    """Returns a zone, or that of the process if there is no such one: the next sync says so."""
    try:
        return cron.location(zone)
    except CronError:
        return cron.location("")


def _controller_names(job: Object) -> list[str]:
    reference = controller_of(job)
    return [f"{job['metadata']['namespace']}/{reference['name']}"] if reference is not None else []
