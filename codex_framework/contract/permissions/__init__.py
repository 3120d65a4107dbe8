"""What may be done: profiles, paths and patterns, hosts."""
