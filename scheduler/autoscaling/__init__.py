"""Answers the cluster autoscaler's questions with the scheduler's plugins, on a snapshot of the cluster.

Source: kubernetes/autoscaler, cluster-autoscaler 1.35; KEP-4381 as drafted (Simulation with CA).
"""
