"""Registers what is particular to the kinds of flowcontrol.apiserver.k8s.io: each by module and name."""

STRATEGIES = {
    "flowschemas": "flowschema.strategy:FlowSchemaStrategy",
    "prioritylevelconfigurations": "prioritylevelconfiguration.strategy:PriorityLevelStrategy",
}

CELLS = {
    "FlowSchema": "flowschema.table:flow_schema",
    "PriorityLevelConfiguration": "prioritylevelconfiguration.table:priority_level_configuration",
}

DEFAULTS = {
    "v1.FlowSchema": "flowschema.defaults:flow_schema",
    "v1.PriorityLevelConfiguration": "prioritylevelconfiguration.defaults:priority_level",
    "v1beta1.FlowSchema": "flowschema.defaults:flow_schema",
    "v1beta1.PriorityLevelConfiguration": "prioritylevelconfiguration.defaults:priority_level_assured",
    "v1beta2.FlowSchema": "flowschema.defaults:flow_schema",
    "v1beta2.PriorityLevelConfiguration": "prioritylevelconfiguration.defaults:priority_level_assured",
    "v1beta3.FlowSchema": "flowschema.defaults:flow_schema",
    "v1beta3.PriorityLevelConfiguration": "prioritylevelconfiguration.defaults:priority_level_beta",
}
