"""Registers what is particular to the kinds of autoscaling: each by module and name."""

STRATEGIES = {
    "horizontalpodautoscalers": "horizontalpodautoscaler.strategy:AutoscalerStrategy",
}

CELLS = {
    "HorizontalPodAutoscaler": "horizontalpodautoscaler.table:horizontal_pod_autoscaler",
    "Scale": "scale.table:scale",
}

DEFAULTS = {
    "v1.HorizontalPodAutoscaler": "horizontalpodautoscaler.defaults:autoscaler_v1",
    "v2.HorizontalPodAutoscaler": "horizontalpodautoscaler.defaults:autoscaler",
    "v2beta2.HorizontalPodAutoscaler": "horizontalpodautoscaler.defaults:autoscaler",
}
