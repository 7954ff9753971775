"""Rules that the kinds of several groups share: amounts, addresses, selectors, pod templates, volumes."""
