"""The differences between releases of the library for drivers' controllers, 0.26 to 0.31."""

from kubeskew.apimachinery.features import FeatureTable, only, since, until


class LibraryFeatures(FeatureTable):
    """Named decisions of one release."""

    allocates_devices: bool = since(31)  # an allocation names devices instead of a handle
    single_handle: bool = only(26)  # an allocation has one handle
    nested_source: bool = until(30)  # until 0.30: spec.resourceClaims[].source
    fixed_names: bool = until(27)  # until 0.27 the name of a generated claim is that of pod and entry
    immediate: bool = until(30)  # until 0.30 claims may be allocated without a pod
    by_controller: bool = since(31)  # 0.31: `spec.controller` says whose a claim is, before that its class
    batches: bool = since(28)  # since 0.28 all claims of a pod are allocated by one call
    reports_to_owners: bool = since(29)  # errors about parameters, on class, claim and pod
    passes_over_allocated: bool = since(29)  # since 0.29 allocated claims are not asked about
    checks_selected_node: bool = since(29)  # since 0.29 even if it is no potential node
    cuts_lists: bool = since(29)  # since 0.29 a list of more than 128 nodes loses one
    joins_errors: bool = since(29)  # since 0.29 the errors of several claims stand on lines of their own
