"""Keeps plain numbers for Prometheus: families of series (`series`), and those of queues (`queues`)."""
