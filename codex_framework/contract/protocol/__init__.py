"""The session protocol: frozen values with Codex's wire names, and no behaviour.

``items``: input and output of a model. ``ops``: requests of clients. ``events``: events for clients. ``policies``: permissions.
``wire``: reading and writing all of them as JSON.
"""
