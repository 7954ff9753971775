"""Holds what webhooks and policies, admission that is configured by objects, share.

`matching` decides whether a request concerns a webhook or a policy, and shows the objects in the version that
it asked for; `conditions` and `expressions` evaluate CEL.
"""
