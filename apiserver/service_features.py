"""Decides what differs between releases and gates in services and endpoints: a part of features.py."""

from kubeskew.apimachinery.features import FeatureTable, bug, choose, gate, since, until


class ServiceFeatures(FeatureTable):
    """Holds the decisions about services and endpoints. The rules of 1.36 are the reference."""

    wipes_cidr_status: bool = gate("ServiceCIDRStatusFieldWiping")  # who writes the rest keeps it
    cidr_status_keeps_metadata: bool = since(32)
    cidr_status_resets_fields: bool = since(36)
    strict_addresses: bool = gate("StrictIPCIDRValidation")
    distributions: tuple[str, ...] = choose(  # what `trafficDistribution` may say
        gate("PreferSameTrafficDistribution"),
        ("PreferClose", "PreferSameZone", "PreferSameNode"),
        ("PreferClose",),
    )
    # Services of other types may have a balancer's status.
    any_balancer_status: bool = gate("AllowServiceLBStatusOnNonLB")
    # On by default since 1.30; removed from the tables once locked, so a newer minor means on.
    ip_modes: bool = since(32) | gate("LoadBalancerIPMode")
    several_ranges: bool = gate("MultiCIDRServiceAllocator")  # ServiceCIDR objects instead of a flag
    relaxed_names: bool = gate("RelaxedServiceNameValidation")  # may begin with a digit, also in ingresses
    endpoint_warnings: bool = since(33)  # odd addresses are warned of
    warnings: bool = since(27)  # of services
    address_wording: bool = since(33)  # services have the texts of other kinds about odd addresses
    name_warnings: bool = since(28)  # of external names and addresses that mean nothing to the type
    status_warnings: bool = since(34)  # addresses of balancers are, too
    field_labels: bool = since(31)  # services can be selected by address and type (127316)
    headless_warnings: bool = since(34)  # of fields that mean nothing to headless services (132214)
    warns_without_affinity: bool = bug("k8s-134054")  # of sessionAffinity, also where it is None
    prefer_close_deprecated: bool = since(35)
    external_ips_deprecated: bool = since(36)
    typed_endpoints: bool = since(33)  # addresses of slices are read first, then their version is looked at
    range_changes_alone: bool = since(33)  # a changed service range is not checked as a new one
    repeated_ranges: bool = until(32)  # a node's ranges of pods that repeat have an error of their own
    reference_texts: bool = until(33)  # of ingresses and their classes: "kind is required"
