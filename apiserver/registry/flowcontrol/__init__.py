"""Strategies, cells and defaults of flowcontrol.apiserver.k8s.io stand here by module and name; `index`
imports them."""

STRATEGIES = {
    "flowschemas": "flowschema:FlowSchemaStrategy",
    "prioritylevelconfigurations": "prioritylevelconfiguration:PriorityLevelStrategy",
}

CELLS = {
    "FlowSchema": "flowschema:flow_schema_cells",
    "PriorityLevelConfiguration": "prioritylevelconfiguration:priority_level_configuration_cells",
}

DEFAULTS = {
    "v1.FlowSchema": "flowschema:default_flow_schema",
    "v1.PriorityLevelConfiguration": "prioritylevelconfiguration:default_priority_level",
    "v1beta1.FlowSchema": "flowschema:default_flow_schema",
    "v1beta1.PriorityLevelConfiguration": "prioritylevelconfiguration:default_priority_level_assured",
    "v1beta2.FlowSchema": "flowschema:default_flow_schema",
    "v1beta2.PriorityLevelConfiguration": "prioritylevelconfiguration:default_priority_level_assured",
    "v1beta3.FlowSchema": "flowschema:default_flow_schema",
    "v1beta3.PriorityLevelConfiguration": "prioritylevelconfiguration:default_priority_level_beta",
}
