"""Holds the rules of pod templates, which pods, workloads and jobs hold."""
