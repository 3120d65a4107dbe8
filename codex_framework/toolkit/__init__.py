"""Building blocks for plugins: ``@tool``, schemas from signatures, argument parsing, truncation, and a distribution skeleton."""
