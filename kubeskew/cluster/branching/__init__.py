"""The time machine: a cluster that is branched off at a revision, and one that goes back to it."""
