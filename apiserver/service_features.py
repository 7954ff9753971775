"""The features of services, endpoints and ingresses in the API server: a part of features.py."""

from kubeskew.apimachinery.features import FeatureTable, bug, by_release, choose, gate, since, until


class ServiceFeatures(FeatureTable):
    """The rules, defaults and warnings of services, endpoints and ingresses; 1.36 is the reference."""

    # Service ranges
    wipes_cidr_status: bool = gate("ServiceCIDRStatusFieldWiping")  # an update of the spec keeps the status
    cidr_status_keeps_metadata: bool = since(32)  # an update of a ServiceCIDR's status keeps its metadata
    cidr_status_resets_fields: bool = since(36)  # a manager of the status owns neither metadata nor spec

    # The version of networking.k8s.io in which the server makes the range of a new cluster.
    range_version: str = by_release({0: "v1alpha1", 31: "v1beta1", 33: "v1"})

    # Rules and defaults
    strict_addresses: bool = gate("StrictIPCIDRValidation")  # addresses and ranges in canonical form only
    distributions: tuple[str, ...] = choose(  # the values of `trafficDistribution`
        gate("PreferSameTrafficDistribution"),
        ("PreferClose", "PreferSameZone", "PreferSameNode"),
        ("PreferClose",),
    )
    # Services of other types than LoadBalancer may have status.loadBalancer.
    any_balancer_status: bool = gate("AllowServiceLBStatusOnNonLB")
    ip_modes: bool = since(32) | gate("LoadBalancerIPMode")  # ipMode of load balancers has a default
    several_ranges: bool = gate("MultiCIDRServiceAllocator")  # ServiceCIDR objects instead of a flag
    relaxed_names: bool = gate("RelaxedServiceNameValidation")  # may begin with a digit, also in ingresses

    # Warnings and selectable fields
    endpoint_warnings: bool = since(33)  # of addresses that are not in canonical form
    warnings: bool = since(27)  # of services
    address_wording: bool = since(33)  # services: warnings of addresses have the texts of other kinds
    name_warnings: bool = since(28)  # of externalName and externalIPs that the type ignores
    status_warnings: bool = since(34)  # of load balancers' addresses that are not in canonical form
    field_labels: bool = since(31)  # services can be selected by spec.clusterIP and spec.type (127316)
    headless_warnings: bool = since(34)  # of fields that headless services ignore (132214)
    warns_without_affinity: bool = bug("k8s-134054")  # headless: of sessionAffinity, also where it is None
    prefer_close_deprecated: bool = since(35)
    external_ips_deprecated: bool = since(36)

    # Errors
    node_hints: bool = gate("PreferSameTrafficDistribution")  # of endpoint slices
    typed_endpoints: bool = since(33)  # addresses of slices are parsed first, then compared to addressType
    range_changes_alone: bool = since(33)  # a changed ServiceCIDR is not validated as a new one
    repeated_ranges: bool = until(32)  # duplicate podCIDRs of a node have an error of their own
    reference_texts: bool = until(33)  # of ingresses and their classes: "kind is required"
