"""Building blocks for sandboxes that confine commands by mounts, namespaces and system-call filters on Linux.

- :mod:`placeholders`: empty folders in place of protected paths that do not exist.
- :mod:`seccomp` and :mod:`syscall_numbers`: a system-call filter, from rules to instructions.
- :mod:`mounts`: which paths need a mount of their own to enforce an access.

The first three need only the standard library, so that programs of :mod:`codex_framework.toolkit.standalone` may import them.
"""
