"""The scheduler's configuration file: `kubescheduler.config.k8s.io/v1`, KubeSchedulerConfiguration."""
