"""Strategies, cells and defaults of autoscaling stand here by module and name; `index` imports them."""

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
