"""Example drivers: processes of their own, with made-up devices, as the plugin library of upstream works."""
