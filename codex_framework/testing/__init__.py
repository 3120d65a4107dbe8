"""For the tests of plugins, and of programs built on the kernel.

``server``: a real Responses server on loopback. ``model``: a scripted model in process. ``plugin``: pytest fixtures.
"""
