"""Strategies, cells and defaults of batch stand here by module and name; `index` imports them."""

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
