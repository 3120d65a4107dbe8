"""What a provider needs for a model server over HTTP, whatever its API.

- ``addresses``: check a provider's table, and make the URL to post to.
- ``credentials``, ``token_command``, ``headers``: who asks, and with which key.
- ``server_client``: send a request, retry it, and read the events of the response within the time limits.
- ``faults``: failures as ``ModelError``, with whether a retry can help, and after which delay.
- ``private_data``: what only one API understands of an item, and its removal from requests of another one.
- ``functions``, ``exchanges``: tools and conversations for APIs that know only functions and messages.
- ``sse``, ``splitter``: server-sent events from pieces of any size.
- ``opening``: the choice of a transport, which has the form of ``transport``. Nothing else knows the HTTP implementations.

Import ``sse`` and ``faults`` only when the request is on its way: nothing before that needs them.
"""
