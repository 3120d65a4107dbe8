"""The roles that plugins play: small protocols, and the values that pass between them and the kernel.

One module per family of roles: ``tools``, ``models``, ``sandboxes``, ``policies``, ``reviewers``, ``interceptors``, ``components`` and others.
"""
