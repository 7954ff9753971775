"""Runs the pods of a node: workers, containers, probes, back-off and the end of a pod."""
