"""Rules of built-in kinds, in upstream's wording (pkg/apis/*/validation, 1.36)."""
