"""The differences between releases in how objects are migrated."""

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.features import FeatureTable, bug, by_release, made, since, until


class MigrationFeatures(FeatureTable):
    """Named decisions of the storage version migrator of one release and one set of gates."""

    ref: Ref = made(
        Ref,
        "storagemigration.k8s.io",
        by_release({0: "v1alpha1", 35: "v1beta1", 37: "v1"}),
        "storageversionmigrations",
        False,
        "StorageVersionMigration",
    )
    names_versions: bool = until(34)  # migrations name a resource with its version
    leaves_newer: bool = since(35)  # what was written after the migration began is left alone, 134231
    tries_again: bool = since(35)  # a migration goes on after errors that may pass, 134231
    # of each resource, chosen by the migration runner; definitions are told, 135297
    one_at_a_time: bool = since(36)
    merges: bool = since(37) & ~bug("k8s-126107")  # by merge patches, which make no object, 138874
    gives_messages: bool = ~bug("k8s-126107")  # conditions say why a migration failed, 126107
    # an object deleted meanwhile is applied as a new one, which fails, 126107
    makes_deleted: bool = bug("k8s-126107")
