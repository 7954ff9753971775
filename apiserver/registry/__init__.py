"""Resources are written by these rules: the generic registry's, and the strategies of kinds."""
