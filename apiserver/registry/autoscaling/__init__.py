"""Registers what is particular to the kinds of autoscaling: each by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "horizontalpodautoscalers": "horizontalpodautoscaler.strategy:AutoscalerStrategy",
}

# by kind: what makes the cells of table rows
CELLS = {
    "HorizontalPodAutoscaler": "horizontalpodautoscaler.table:horizontal_pod_autoscaler",
    "Scale": "scale.table:scale",
}

# by version and kind: what sets defaults
DEFAULTS = {
    "v1.HorizontalPodAutoscaler": "horizontalpodautoscaler.defaults:autoscaler_v1",
    "v2.HorizontalPodAutoscaler": "horizontalpodautoscaler.defaults:autoscaler",
    "v2beta2.HorizontalPodAutoscaler": "horizontalpodautoscaler.defaults:autoscaler",
}
