"""The messages: `.proto` files with upstream's names and numbers, and what is generated from them."""
