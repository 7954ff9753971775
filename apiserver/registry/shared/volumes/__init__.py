"""Rules of volumes and claims, which pods, persistent volumes and attachments hold."""
