"""The other end of the protocol: ``exec --remote`` runs its turn on an app server, ours or Codex's.

``options`` checks the command line, ``address`` parses the server's address, ``peer`` connects to it, ``thread`` is the thread
as ``exec`` uses it, and ``events`` turns notifications into the kernel's events, which is the inverse of ``notifications`` and
``items``.
"""

from __future__ import annotations
