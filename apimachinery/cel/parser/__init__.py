"""Parses texts into syntax trees, as cel-go does."""
