"""Registers what is particular to the kinds of batch: each by module and name."""

STRATEGIES = {
    "cronjobs": "cronjob.strategy:CronJobStrategy",
    "jobs": "job.strategy:JobStrategy",
}

CELLS = {
    "CronJob": "cronjob.table:cron_job",
    "Job": "job.table:job",
}

DEFAULTS = {
    "v1.CronJob": "cronjob.defaults:cron_job",
    "v1.Job": "job.defaults:job",
}
