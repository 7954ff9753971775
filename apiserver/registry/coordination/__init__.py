"""Strategies and cells of coordination.k8s.io stand here by module and name; `index` imports them."""

STRATEGIES = {
    "leasecandidates": "leasecandidate:LeaseCandidateStrategy",
    "leases": "lease:LeaseStrategy",
}

CELLS = {
    "Lease": "lease:lease_cells",
    "LeaseCandidate": "leasecandidate:lease_candidate_cells",
}
