"""The API client: REST calls, informers, work queues, leader election, event recording."""
