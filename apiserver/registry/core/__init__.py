"""Strategies, cells, conditions of rows and defaults of the core group stand here by module and name; `index`
imports them."""

STRATEGIES = {
    "configmaps": "configmap:ConfigMapStrategy",
    "endpoints": "endpoints:EndpointsStrategy",
    "events": "event:EventStrategy",
    "limitranges": "limitrange:LimitRangeStrategy",
    "namespaces": "namespace:NamespaceStrategy",
    "nodes": "node:NodeStrategy",
    "persistentvolumeclaims": "persistentvolumeclaim:VolumeClaimStrategy",
    "persistentvolumes": "persistentvolume:VolumeStrategy",
    "pods": "pod.strategy:PodStrategy",
    "podtemplates": "podtemplate:PodTemplateStrategy",
    "replicationcontrollers": "replicationcontroller:ReplicationControllerStrategy",
    "resourcequotas": "resourcequota:QuotaStrategy",
    "secrets": "secret:SecretStrategy",
    "serviceaccounts": "serviceaccount:ServiceAccountStrategy",
    "services": "service.strategy:ServiceStrategy",
}

CELLS = {
    "ComponentStatus": "componentstatus:component_status_cells",
    "ConfigMap": "configmap:config_map_cells",
    "Endpoints": "endpoints:endpoints_cells",
    "Event": "event:event_cells",
    "Namespace": "namespace:namespace_cells",
    "Node": "node:node_cells",
    "PersistentVolume": "persistentvolume:persistent_volume_cells",
    "PersistentVolumeClaim": "persistentvolumeclaim:persistent_volume_claim_cells",
    "Pod": "pod.strategy:pod_cells",
    "PodTemplate": "podtemplate:pod_template_cells",
    "ReplicationController": "replicationcontroller:replication_controller_cells",
    "ResourceQuota": "resourcequota:resource_quota_cells",
    "Secret": "secret:secret_cells",
    "Service": "service.strategy:service_cells",
    "ServiceAccount": "serviceaccount:service_account_cells",
}

ROW_CONDITIONS = {
    "Pod": "pod.strategy:row_conditions",
}

DEFAULTS = {
    "v1.Endpoints": "endpoints:default_endpoints",
    "v1.LimitRange": "limitrange:default_limit_range",
    "v1.Namespace": "namespace:default_namespace",
    "v1.Node": "node:default_node",
    "v1.PersistentVolume": "persistentvolume:default_persistent_volume",
    "v1.PersistentVolumeClaim": "kubeskew.apiserver.registry.shared.volumes.claims:default_volume_claim",
    "v1.Pod": "pod.strategy:default_pod",
    "v1.PodTemplate": "podtemplate:default_pod_template",
    "v1.ReplicationController": "replicationcontroller:default_replication_controller",
    "v1.ResourceQuota": "resourcequota:default_resource_quota",
    "v1.Secret": "secret:default_secret",
    "v1.Service": "service.strategy:default_service",
}
