"""The example driver by KEP-3063's draft: its controller, and the capacity that its nodes publish."""
