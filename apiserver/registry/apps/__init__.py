"""Strategies, cells and defaults of apps stand here by module and name; `index` imports them."""

STRATEGIES = {
    "controllerrevisions": "controllerrevision:ControllerRevisionStrategy",
    "daemonsets": "daemonset:DaemonSetStrategy",
    "deployments": "deployment:DeploymentStrategy",
    "replicasets": "replicaset:ReplicaSetStrategy",
    "statefulsets": "statefulset:StatefulSetStrategy",
}

CELLS = {
    "ControllerRevision": "controllerrevision:controller_revision_cells",
    "DaemonSet": "daemonset:daemon_set_cells",
    "Deployment": "deployment:deployment_cells",
    "ReplicaSet": "replicaset:replica_set_cells",
    "StatefulSet": "statefulset:stateful_set_cells",
}

DEFAULTS = {
    "v1.DaemonSet": "daemonset:default_daemon_set",
    "v1.Deployment": "deployment:default_deployment",
    "v1.ReplicaSet": "replicaset:default_replica_set",
    "v1.StatefulSet": "statefulset:default_stateful_set",
}
