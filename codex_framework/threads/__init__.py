"""Conversations: history, record, tasks, operations and tools of one thread. ``turn`` holds the turn machine and its driver."""
