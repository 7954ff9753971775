"""Requests change objects that exist by server-side apply or by patches."""
