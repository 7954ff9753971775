"""Holds what webhooks and policies, admission that is configured by objects, share.

`matching` decides whether a request concerns a webhook or a policy, `versions` shows the objects in the
version that it asked for, `reviews` writes and reads AdmissionReviews.
"""
