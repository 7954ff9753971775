"""The client side of the API: requests, informers, work queues, leader election, events."""
