"""The session protocol: frozen values with Codex's wire names, and no behaviour.

``items``: what goes to and from a model. ``ops``: what clients ask. ``events``: what clients hear. ``policies``: what is allowed.
``wire``: reading and writing all of them as JSON.
"""
