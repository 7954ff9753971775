"""Creates the default service account of each namespace, its CA config map, and tokens in secrets."""
