"""Registers what is particular to the kinds of storage.k8s.io: each by module and name."""

STRATEGIES = {
    "csidrivers": "csidriver.strategy:CSIDriverStrategy",
    "csinodes": "csinode.strategy:CSINodeStrategy",
    "csistoragecapacities": "csistoragecapacity.strategy:CapacityStrategy",
    "storageclasses": "storageclass.strategy:StorageClassStrategy",
    "volumeattachments": "volumeattachment.strategy:AttachmentStrategy",
    "volumeattributesclasses": "volumeattributesclass.strategy:AttributesClassStrategy",
}

CELLS = {
    "CSIDriver": "csidriver.table:csi_driver",
    "CSINode": "csinode.table:csi_node",
    "CSIStorageCapacity": "csistoragecapacity.table:csi_storage_capacity",
    "StorageClass": "storageclass.table:storage_class",
    "VolumeAttachment": "volumeattachment.table:volume_attachment",
    "VolumeAttributesClass": "volumeattributesclass.table:volume_attributes_class",
}

DEFAULTS = {
    "v1.CSIDriver": "csidriver.defaults:csi_driver",
    "v1.StorageClass": "storageclass.defaults:storage_class",
    "v1.VolumeAttachment": "volumeattachment.defaults:volume_attachment",
}
