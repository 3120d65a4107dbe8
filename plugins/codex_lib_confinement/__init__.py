"""Building blocks for sandboxes and for programs that run without the plugins' dependencies.

- :mod:`launching`: a sandbox's program, and its start with the protected folders in place.
- :mod:`mounts` and :mod:`paths`: which paths need a separate mount to enforce an access.
- :mod:`seccomp` and :mod:`syscall_numbers`: a system-call filter, from rules to instructions.
- :mod:`standalone`: run a module of a plugin in an interpreter that sees the standard library only. Such modules may import
  :mod:`paths`, :mod:`seccomp` and :mod:`syscall_numbers`.

Plugins, clients and other distributions may import it. It uses the contract and the toolkit.
"""
