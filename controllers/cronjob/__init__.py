"""The cron job controller."""
