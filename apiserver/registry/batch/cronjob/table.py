"""Makes the cells that `kubectl get` shows of CronJob objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    NONE,
    Cells,
    Subject,
    boolean,
    containers,
    selector,
)


def cron_job(subject: Subject) -> Cells:
    job_spec = ("spec", "jobTemplate", "spec")
    return {
        "Schedule": subject.text("spec", "schedule"),
        "Timezone": subject.text("spec", "timeZone", default=NONE),
        "Suspend": boolean(subject.at("spec", "suspend")),
        "Active": subject.count("status", "active"),
        "Last Schedule": subject.since("status", "lastScheduleTime", default=NONE),
        **containers(subject.at(*job_spec, "template")),
        "Selector": selector(subject.at(*job_spec, "selector")),
    }
