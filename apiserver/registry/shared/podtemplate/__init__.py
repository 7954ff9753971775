"""Pods, workloads and jobs hold pod templates, whose rules these are."""
