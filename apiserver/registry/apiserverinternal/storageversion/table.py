"""Makes the cells that `kubectl get` shows of StorageVersion objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    UNSET,
    Cells,
    Subject,
    shortened,
)


def storage_version(subject: Subject) -> Cells:
    stored = [
        f"{version.get('apiServerID', '')}={version.get('encodingVersion', '')}"
        for version in subject.items("status", "storageVersions")
    ]
    return {
        "CommonEncodingVersion": subject.text("status", "commonEncodingVersion", default=UNSET),
        "StorageVersions": shortened(stored) or UNSET,
    }
