"""The program that runs scripts: a process of its own with a JavaScript engine and nothing else."""
