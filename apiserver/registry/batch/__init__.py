"""Registers what is particular to the kinds of batch: each by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "cronjobs": "cronjob.strategy:CronJobStrategy",
    "jobs": "job.strategy:JobStrategy",
}

# by kind: what makes the cells of table rows
CELLS = {
    "CronJob": "cronjob.table:cron_job",
    "Job": "job.table:job",
}

# by version and kind: what sets defaults
DEFAULTS = {
    "v1.CronJob": "cronjob.defaults:cron_job",
    "v1.Job": "job.defaults:job",
}
