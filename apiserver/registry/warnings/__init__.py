"""What is accepted but worth a Warning header: texts by kind, as upstream's pkg/api/*/warnings.go."""
