"""Registers what is particular to the kinds of batch: each by module and name."""

STRATEGIES = {
    "cronjobs": "cronjob:CronJobStrategy",
    "jobs": "job.strategy:JobStrategy",
}

CELLS = {
    "CronJob": "cronjob:cron_job_cells",
    "Job": "job.strategy:job_cells",
}

DEFAULTS = {
    "v1.CronJob": "cronjob:default_cron_job",
    "v1.Job": "job.strategy:default_job",
}
