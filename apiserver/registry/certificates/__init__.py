"""Registers what is particular to the kinds of certificates.k8s.io: each by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "certificatesigningrequests": "certificatesigningrequest.strategy:SigningRequestStrategy",
    "clustertrustbundles": "clustertrustbundle.strategy:TrustBundleStrategy",
    "podcertificaterequests": "podcertificaterequest.strategy:PodCertificateStrategy",
}

# by kind: what makes the cells of table rows
CELLS = {
    "CertificateSigningRequest": "certificatesigningrequest.table:certificate_signing_request",
    "ClusterTrustBundle": "clustertrustbundle.table:cluster_trust_bundle",
    "PodCertificateRequest": "podcertificaterequest.table:pod_certificate_request",
}

# by version and kind: what sets defaults
DEFAULTS = {
    "v1alpha1.PodCertificateRequest": "podcertificaterequest.defaults:pod_certificate_request",
    "v1beta1.PodCertificateRequest": "podcertificaterequest.defaults:pod_certificate_request",
}
