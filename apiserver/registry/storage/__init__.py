"""Strategies, cells and defaults of storage.k8s.io stand here by module and name; `index` imports them."""

STRATEGIES = {
    "csidrivers": "csidriver:CSIDriverStrategy",
    "csinodes": "csinode:CSINodeStrategy",
    "csistoragecapacities": "csistoragecapacity:CapacityStrategy",
    "storageclasses": "storageclass:StorageClassStrategy",
    "volumeattachments": "volumeattachment:AttachmentStrategy",
    "volumeattributesclasses": "volumeattributesclass:AttributesClassStrategy",
}

CELLS = {
    "CSIDriver": "csidriver:csi_driver_cells",
    "CSINode": "csinode:csi_node_cells",
    "StorageClass": "storageclass:storage_class_cells",
    "VolumeAttachment": "volumeattachment:volume_attachment_cells",
    "VolumeAttributesClass": "volumeattributesclass:volume_attributes_class_cells",
}

DEFAULTS = {
    "v1.CSIDriver": "csidriver:default_csi_driver",
    "v1.StorageClass": "storageclass:default_storage_class",
    "v1.VolumeAttachment": "volumeattachment:default_volume_attachment",
}
