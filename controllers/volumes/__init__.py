"""Controllers of volumes and claims: protection, ephemeral claims, binding."""
