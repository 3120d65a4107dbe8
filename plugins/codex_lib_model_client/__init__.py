"""Clients of model servers: transports, events, credentials and logins, whatever the API of the server.

- ``addresses``: check a provider's table, and make the URL to post to.
- ``credentials``, ``token_command``, ``headers``: the identity and the key of requests.
- ``server_client``: send a request, retry it, and read the events of the response within the time limits.
- ``faults``: failures as ``ModelError``, stating whether a retry can help, and after which delay.
- ``message_client``: the whole client of an API with messages and functions, except the form of its bodies and events. It uses
  ``functions``, ``call_pairing`` and ``message_texts``: tools and conversations for APIs that know nothing else.
- ``table``: options of a provider's table, with errors that name the key.
- ``private_data``: parts of an item that only one API understands, and their removal from requests of other APIs.
- ``sse``, ``splitter``: server-sent events from pieces of any size.
- ``opening``: the choice of a transport, which has the form of ``transport``. Nothing else knows the HTTP implementations.

Import ``sse`` and ``faults`` only when the request is on its way: nothing before that needs them.
"""
