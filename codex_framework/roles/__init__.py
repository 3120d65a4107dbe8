"""The roles that plugins play: small protocols, and the values that pass between them and the kernel.

``tools``, ``providers``, ``sandboxes``, ``context``, ``deciders``, ``observers``, ``stores``: one module a role family. No behaviour here.
"""
