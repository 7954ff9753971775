"""Serves CustomResourceDefinitions and the resources they define.

`stored` reads definitions from the store, `resource` makes resources of them, `table` puts these beside the
built-in ones; `strategy` and `validation` are the kind's own rules, `naming` and
`finalizing` its controllers.
Source: k8s.io/apiextensions-apiserver, 1.36.
"""
