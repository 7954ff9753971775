"""The differences between releases of the library for drivers' controllers, 0.26 to 0.31."""

from dataclasses import dataclass

from kubeskew.apimachinery.versions import Version


@dataclass(frozen=True, slots=True)
class LibraryFeatures:
    """Named decisions of one release."""

    nested_source: bool  # until 0.30: spec.resourceClaims[].source
    fixed_names: bool  # until 0.27 the name of a generated claim is that of pod and entry
    immediate: bool  # until 0.30 claims may be allocated without a pod
    by_controller: bool  # 0.31: `spec.controller` says whose a claim is, before that its class
    batches: bool  # since 0.28 all claims of a pod are allocated by one call
    tells_owners: bool  # since 0.29 errors about parameters are told on class, claim and pod, too
    passes_over_allocated: bool  # since 0.29 allocated claims are not asked about
    checks_selected_node: bool  # since 0.29 even if it is no potential node
    cuts_lists: bool  # since 0.29 a list of more than 128 nodes loses one
    joins_errors: bool  # since 0.29 the errors of several claims stand on lines of their own

    @classmethod
    def of(cls, version: Version) -> "LibraryFeatures":
        minor = version.minor
        return cls(
            nested_source=minor <= 30,
            fixed_names=minor <= 27,
            immediate=minor <= 30,
            by_controller=minor >= 31,
            batches=minor >= 28,
            tells_owners=minor >= 29,
            passes_over_allocated=minor >= 29,
            checks_selected_node=minor >= 29,
            cuts_lists=minor >= 29,
            joins_errors=minor >= 29,
        )
