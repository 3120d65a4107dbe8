"""Finding files: the rules that leave files out, and fuzzy search for paths.

- :mod:`ignore_rules`: read `.gitignore` and its relatives.
- :mod:`fuzzy`: match a path against a user's query.
- :mod:`search`: find the best paths in folders, in small steps.

Plugins, clients and other distributions may import it. It uses the contract and the toolkit.
"""
