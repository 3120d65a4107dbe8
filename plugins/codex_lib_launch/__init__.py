"""What launchers share: the work of one job on a kernel, and jobs, results and events as JSON.

- :mod:`jobs`: the jobs of an open launcher, each of which runs once at a time.
- :mod:`worker`: run a job on a kernel, from the start or from its session's record.
- :mod:`encoding`: jobs, results, answers and events as JSON, for other processes and machines.

Plugins, clients and other distributions may import it. It uses the contract and the toolkit.
"""
