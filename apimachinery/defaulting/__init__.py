"""Defaults of the built-in kinds and of schemas: `apply_defaults` is the way in.

One module per group of kinds; each says for what definitions it has a function. Values: upstream's
`SetDefaults_*` (pkg/apis/*/defaults.go), 1.26 to 1.36.
"""

from kubeskew.apimachinery.defaulting.applying import DEFAULTERS, apply_defaults
from kubeskew.apimachinery.defaulting.context import DefaultingContext

__all__ = ["DEFAULTERS", "DefaultingContext", "apply_defaults"]
