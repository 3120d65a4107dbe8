"""The terminal: a person works with the agent in a conversation. It is a client of the kernel's public API.

``screen`` writes to the terminal, ``keys`` reads from it. ``app`` puts the parts together: the conversation above
(``transcript``, ``items``, ``markdown``), and below it one view that takes the keys: the composer, a question (``decisions``)
or a list (``pickers``). ``session`` contains the kernel and the thread. ``commands`` contains the slash commands.
"""
