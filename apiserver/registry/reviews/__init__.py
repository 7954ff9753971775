"""Answers reviews: objects that are questions about users and their rights; never stored."""
