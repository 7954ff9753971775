"""Horizontal pod autoscalers: replicas follow the usage of pods (metrics.k8s.io); no server has other
metrics.

Source: k8s.io/kubernetes/pkg/controller/podautoscaler, 1.36.
"""
