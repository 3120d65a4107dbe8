"""Permissions: profiles, paths and patterns, hosts."""
