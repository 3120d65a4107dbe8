"""Writing of a trace."""
