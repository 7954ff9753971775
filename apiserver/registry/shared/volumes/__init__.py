"""Pods, persistent volumes and attachments hold volumes and claims, whose rules these are."""
