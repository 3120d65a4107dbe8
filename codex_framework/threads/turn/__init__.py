"""One turn: the machine without I/O (``machine``), and what performs its commands."""
