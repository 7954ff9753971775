"""Makes cluster roles of others, as their aggregation rules say."""
