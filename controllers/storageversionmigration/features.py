"""The differences between releases in how objects are migrated."""

from dataclasses import dataclass

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version

_LAST_ALPHA, _LAST_BETA = 34, 36
_ROBUST_SINCE = 35  # pull request 134231
_RUNNER_SINCE = 36  # pull request 135297, of March 2026
_MERGING_SINCE = 37  # pull request 138874


@dataclass(frozen=True, slots=True)
class MigrationFeatures:
    """Named decisions of the storage version migrator of one release and one set of gates."""

    ref: Ref
    names_versions: bool  # migrations name a resource with its version
    leaves_newer: bool  # what was written after the migration began is left alone, 134231
    tries_again: bool  # a migration goes on after errors that may pass, 134231
    one_at_a_time: bool  # of each resource, chosen by the migration runner; definitions are told, 135297
    merges: bool  # by merge patches, which make no object, 138874
    gives_messages: bool  # conditions say why a migration failed, 126107
    makes_deleted: bool  # an object deleted meanwhile is applied as a new one, which fails, 126107

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "MigrationFeatures":
        minor, flawed = version.minor, gates.bugs.present("k8s-126107")
        spoken = "v1alpha1" if minor <= _LAST_ALPHA else "v1beta1" if minor <= _LAST_BETA else "v1"
        resource = ("storageversionmigrations", False, "StorageVersionMigration")
        return cls(
            ref=Ref("storagemigration.k8s.io", spoken, *resource),
            names_versions=minor <= _LAST_ALPHA,
            leaves_newer=minor >= _ROBUST_SINCE,
            tries_again=minor >= _ROBUST_SINCE,
            one_at_a_time=minor >= _RUNNER_SINCE,
            merges=minor >= _MERGING_SINCE and not flawed,
            gives_messages=not flawed,
            makes_deleted=flawed,
        )
