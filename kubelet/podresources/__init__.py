"""The kubelet's socket for monitoring agents: the devices of its node's containers."""
