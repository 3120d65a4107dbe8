"""Conformance checks of roles, one module per role. ``codex_framework.testing`` has all the checks.

Each check uses the object and lists all faults together, each with the rule of the role. The roles themselves are in
``codex_framework/roles``.
"""
