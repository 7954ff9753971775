"""Applies defaults: those that schemas hold, then those that each kind brings.

Values: upstream's `SetDefaults_*` (pkg/apis/*/defaults.go), 1.26 to 1.36.
"""
