"""The log in PostgreSQL, for API servers on several machines; asyncpg is imported nowhere else."""
