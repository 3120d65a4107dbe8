"""The login at OpenAI: an API key, ChatGPT's tokens or a personal access token, in ``auth.json`` or the system's keyring.

Model providers read it, and the plugin ``login`` writes it. Nothing here is imported before a provider needs a login.
"""
