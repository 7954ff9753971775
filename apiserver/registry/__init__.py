"""What a resource does with a write beside storing it: the generic registry and the strategies of kinds."""
