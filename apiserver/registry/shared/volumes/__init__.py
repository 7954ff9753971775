"""Holds the rules of volumes and claims, which pods, persistent volumes and attachments hold."""
