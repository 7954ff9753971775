"""Registers what is particular to the kinds of autoscaling: each by module and name."""

STRATEGIES = {
    "horizontalpodautoscalers": "horizontalpodautoscaler:AutoscalerStrategy",
}

CELLS = {
    "HorizontalPodAutoscaler": "horizontalpodautoscaler:horizontal_pod_autoscaler_cells",
    "Scale": "scale:scale_cells",
}

DEFAULTS = {
    "v1.HorizontalPodAutoscaler": "horizontalpodautoscaler:default_autoscaler_v1",
    "v2.HorizontalPodAutoscaler": "horizontalpodautoscaler:default_autoscaler",
    "v2beta2.HorizontalPodAutoscaler": "horizontalpodautoscaler:default_autoscaler",
}
