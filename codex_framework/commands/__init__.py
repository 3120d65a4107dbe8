"""Everything between a command request and its result: policy, approval, confinement, process and events."""
