"""The kubelet's socket for monitoring agents: which devices the containers of a node have."""
