"""The roles that plugins play: base classes to derive from, and the values that pass between them and the kernel.

One module per family of roles, such as ``tools``, ``models``, ``sandboxes``, ``policies``, ``reviewers``, ``components``. The
contexts
that plugins get are in ``threads``, ``tasks``, ``tools`` and ``plugins``.
"""
