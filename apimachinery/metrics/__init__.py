"""Keeps plain numbers for Prometheus: families of series and queues (`series`), those of a process, and their
text."""
