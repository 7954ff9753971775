"""Annotates nodes with the time for which kubelets may keep secrets and config maps."""
