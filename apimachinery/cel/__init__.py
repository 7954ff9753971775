"""CEL, the Common Expression Language, as Kubernetes speaks it.

The grammar is celpy's, read on first use; evaluation is our own, because celpy knows neither optional
values nor two-variable macros and is slow for a scheduler: 0.25 ms for the simplest selector.
Nothing outside this package touches celpy or lark.
"""
