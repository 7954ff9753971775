"""Horizontal pod autoscalers: replicas by what pods use (metrics.k8s.io); other metrics are not to be had.

Source: k8s.io/kubernetes/pkg/controller/podautoscaler, 1.36.
"""
