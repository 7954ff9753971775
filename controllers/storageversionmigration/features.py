"""The features of the storage version migrator."""

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.features import FeatureTable, bug, by_release, made, since, until


class MigrationFeatures(FeatureTable):
    """The API of migrations, and the writes of migrated objects."""

    ref: Ref = made(
        Ref,
        "storagemigration.k8s.io",
        by_release({0: "v1alpha1", 35: "v1beta1", 37: "v1"}),
        "storageversionmigrations",
        False,
        "StorageVersionMigration",
    )
    names_versions: bool = until(34)  # spec.resource has a version
    leaves_newer: bool = since(35)  # objects written after the migration began are skipped (134231)
    tries_again: bool = since(35)  # after errors that may pass (134231)
    # One migration of each resource runs; the status of custom resource definitions shows it (135297).
    one_at_a_time: bool = since(36)
    merges: bool = since(37) & ~bug("k8s-126107")  # merge patches, which create no object (138874)
    gives_messages: bool = ~bug("k8s-126107")  # conditions have the error of a failed migration
    # An object that was deleted meanwhile is applied as a new one, which fails.
    makes_deleted: bool = bug("k8s-126107")
