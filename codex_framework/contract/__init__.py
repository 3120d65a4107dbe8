"""The contract: everything that a plugin may import from the kernel.

Values (:mod:`value`, :mod:`protocol`, :mod:`permissions`), errors (:mod:`errors`), roles and contexts (:mod:`roles`), and the hooks
(:mod:`hookspecs`). The contract has no behaviour of the kernel in it, and imports nothing else of the kernel.
"""
