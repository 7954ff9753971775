"""Strategies, cells and defaults of scheduling.k8s.io stand here by module and name; `index` imports them."""

STRATEGIES = {
    "podgroups": "podgroup:PodGroupStrategy",
    "priorityclasses": "priorityclass:PriorityClassStrategy",
    "workloads": "workload:WorkloadStrategy",
}

CELLS = {
    "CompositePodGroup": "podgroup:pod_group_cells",
    "PodGroup": "podgroup:pod_group_cells",
    "PriorityClass": "priorityclass:priority_class_cells",
}

DEFAULTS = {
    "v1.PriorityClass": "priorityclass:default_priority_class",
    "v1alpha2.PodGroup": "podgroup:default_pod_group_mode_name",
    "v1alpha3.CompositePodGroup": "podgroup:default_pod_group_mode",
    "v1alpha3.PodGroup": "podgroup:default_pod_group_mode",
    "v1beta1.PodGroup": "podgroup:default_pod_group_mode",
}
