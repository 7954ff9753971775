"""The CPU manager and the memory manager of a node (pkg/kubelet/cm)."""
