"""Conformance: does an object keep to the role it plays? One module a role; ``codex_framework.testing`` has all the checks.

Each check tries the object out and lists everything that is wrong at once, each with what the role says. The roles themselves
are in ``codex_framework/roles``.
"""
