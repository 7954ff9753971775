"""Declarative validation: the rules that upstream declares with its types, as tags `+k8s:…`.

The catalogue has the rules; `compiler` makes checks of them, once per type; `enforcement` knows whose
findings count.
"""
