"""Registers what is particular to the kinds of the core group: each by module and name."""

STRATEGIES = {
    "configmaps": "configmap.strategy:ConfigMapStrategy",
    "endpoints": "endpoints.strategy:EndpointsStrategy",
    "events": "event.strategy:EventStrategy",
    "limitranges": "limitrange.strategy:LimitRangeStrategy",
    "namespaces": "namespace.strategy:NamespaceStrategy",
    "nodes": "node.strategy:NodeStrategy",
    "persistentvolumeclaims": "persistentvolumeclaim.strategy:VolumeClaimStrategy",
    "persistentvolumes": "persistentvolume.strategy:VolumeStrategy",
    "pods": "pod.strategy:PodStrategy",
    "podtemplates": "podtemplate.strategy:PodTemplateStrategy",
    "replicationcontrollers": "replicationcontroller.strategy:ReplicationControllerStrategy",
    "resourcequotas": "resourcequota.strategy:QuotaStrategy",
    "secrets": "secret.strategy:SecretStrategy",
    "serviceaccounts": "serviceaccount.strategy:ServiceAccountStrategy",
    "services": "service.strategy:ServiceStrategy",
}

CELLS = {
    "ComponentStatus": "componentstatus.table:component_status",
    "ConfigMap": "configmap.table:config_map",
    "Endpoints": "endpoints.table:endpoints",
    "Event": "event.table:event",
    "Namespace": "namespace.table:namespace",
    "Node": "node.table:node",
    "PersistentVolume": "persistentvolume.table:persistent_volume",
    "PersistentVolumeClaim": "persistentvolumeclaim.table:persistent_volume_claim",
    "Pod": "pod.table:pod",
    "PodTemplate": "podtemplate.table:pod_template",
    "ReplicationController": "replicationcontroller.table:replication_controller",
    "ResourceQuota": "resourcequota.table:resource_quota",
    "Secret": "secret.table:secret",
    "Service": "service.table:service",
    "ServiceAccount": "serviceaccount.table:service_account",
}

ROW_CONDITIONS = {
    "Pod": "pod.table:row_conditions",
}

DEFAULTS = {
    "v1.Endpoints": "endpoints.defaults:endpoints",
    "v1.LimitRange": "limitrange.defaults:limit_range",
    "v1.Namespace": "namespace.defaults:namespace",
    "v1.Node": "node.defaults:node",
    "v1.PersistentVolume": "persistentvolume.defaults:persistent_volume",
    "v1.PersistentVolumeClaim": "kubeskew.apiserver.registry.shared.volumes.defaults:persistent_volume_claim",
    "v1.Pod": "pod.defaults:pod",
    "v1.PodTemplate": "podtemplate.defaults:pod_template",
    "v1.ReplicationController": "replicationcontroller.defaults:replication_controller",
    "v1.ResourceQuota": "resourcequota.defaults:resource_quota",
    "v1.Secret": "secret.defaults:secret",
    "v1.Service": "service.defaults:service",
}
