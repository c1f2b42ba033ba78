"""What packages ask of PyTorch's own machinery: nobody counts calls, and PyTorch traces nothing."""


def _log_api_usage_once(name: str) -> None:
    """Nothing is counted."""


def _get_tracing_state() -> None:
    """No program is being traced by PyTorch."""
