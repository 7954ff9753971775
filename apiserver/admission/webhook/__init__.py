"""Admits requests by webhooks: reviews, calls, and the mutating and the validating plugin."""
