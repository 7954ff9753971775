"""Registers what is particular to the kinds of coordination.k8s.io: each by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "leasecandidates": "leasecandidate.strategy:LeaseCandidateStrategy",
    "leases": "lease.strategy:LeaseStrategy",
}

# by kind: what makes the cells of table rows
CELLS = {
    "Lease": "lease.table:lease",
    "LeaseCandidate": "leasecandidate.table:lease_candidate",
}
