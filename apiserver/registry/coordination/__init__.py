"""Registers what is particular to the kinds of coordination.k8s.io: each by module and name."""

STRATEGIES = {
    "leasecandidates": "leasecandidate:LeaseCandidateStrategy",
    "leases": "lease:LeaseStrategy",
}

CELLS = {
    "Lease": "lease:lease_cells",
    "LeaseCandidate": "leasecandidate:lease_candidate_cells",
}
