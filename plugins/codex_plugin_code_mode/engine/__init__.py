"""The program that runs scripts: a separate process with a JavaScript engine and nothing else."""
