"""One turn: the machine without I/O (``machine``), and the code that runs its commands."""
