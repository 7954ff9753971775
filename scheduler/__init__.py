"""The scheduler: framework, plugins and the device allocator."""
