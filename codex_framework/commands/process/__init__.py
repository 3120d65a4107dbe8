"""Commands as processes: their environment, start, output and end."""
