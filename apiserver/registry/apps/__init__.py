"""Registers what is particular to the kinds of apps: each by module and name."""

STRATEGIES = {
    "controllerrevisions": "controllerrevision.strategy:ControllerRevisionStrategy",
    "daemonsets": "daemonset.strategy:DaemonSetStrategy",
    "deployments": "deployment.strategy:DeploymentStrategy",
    "replicasets": "replicaset.strategy:ReplicaSetStrategy",
    "statefulsets": "statefulset.strategy:StatefulSetStrategy",
}

CELLS = {
    "ControllerRevision": "controllerrevision.table:controller_revision",
    "DaemonSet": "daemonset.table:daemon_set",
    "Deployment": "deployment.table:deployment",
    "ReplicaSet": "replicaset.table:replica_set",
    "StatefulSet": "statefulset.table:stateful_set",
}

DEFAULTS = {
    "v1.DaemonSet": "daemonset.defaults:daemon_set",
    "v1.Deployment": "deployment.defaults:deployment",
    "v1.ReplicaSet": "replicaset.defaults:replica_set",
    "v1.StatefulSet": "statefulset.defaults:stateful_set",
}
