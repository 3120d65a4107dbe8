"""Shell scripts: their commands, and what these do.

- :mod:`parsing`: split a script into commands, if that is possible with certainty.
- :mod:`actions`: describe a command for clients, such as the file that it reads.

Plugins, clients and other distributions may import it. It uses the contract and the toolkit.
"""
