"""Programs of images that listen: they answer HTTP requests for as long as their container runs."""
