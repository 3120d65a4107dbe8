"""The transports: how JSON-RPC messages reach a server and come back."""
