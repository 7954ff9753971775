"""The InterPodAffinity plugin and its queueing hints."""
