"""What every request passes before its handler, one filter per module; `apiserver.pipeline` orders them."""
