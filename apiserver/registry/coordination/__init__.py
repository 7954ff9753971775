"""Registers what is particular to the kinds of coordination.k8s.io: each by module and name."""

STRATEGIES = {
    "leasecandidates": "leasecandidate.strategy:LeaseCandidateStrategy",
    "leases": "lease.strategy:LeaseStrategy",
}

CELLS = {
    "Lease": "lease.table:lease",
    "LeaseCandidate": "leasecandidate.table:lease_candidate",
}
