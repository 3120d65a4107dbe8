"""Edits of a `config.toml` that keep its comments and layout, for clients and plugins. The kernel only reads."""
