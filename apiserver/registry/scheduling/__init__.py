"""Registers what is particular to the kinds of scheduling.k8s.io: each by module and name."""

STRATEGIES = {
    "podgroups": "podgroup.strategy:PodGroupStrategy",
    "priorityclasses": "priorityclass.strategy:PriorityClassStrategy",
    "workloads": "workload.strategy:WorkloadStrategy",
}

CELLS = {
    "CompositePodGroup": "podgroup.table:pod_group",
    "PodGroup": "podgroup.table:pod_group",
    "PriorityClass": "priorityclass.table:priority_class",
}

DEFAULTS = {
    "v1.PriorityClass": "priorityclass.defaults:priority_class",
    "v1alpha2.PodGroup": "podgroup.defaults:pod_group_mode_name",
    "v1alpha3.CompositePodGroup": "podgroup.defaults:pod_group_mode",
    "v1alpha3.PodGroup": "podgroup.defaults:pod_group_mode",
    "v1beta1.PodGroup": "podgroup.defaults:pod_group_mode",
}
