"""Conversations: history, record, tasks, ops and tools of one thread. ``turn`` contains the turn machine and its driver."""
