"""Reviews: objects that are questions about users and their rights; answered, never stored."""
