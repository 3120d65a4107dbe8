# ruff: noqa
# Put together and run inside the sandbox by test_attacks.py.
def run_attacks(attacks):
    """Each attack in a process of its own; prints its name and what came of it."""
    for name, attack in attacks.items():
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            try:
                attack()
            except OSError as error:
                if error.errno == errno.EFAULT:
                    sys.stderr.write(f"{name}: bad address, so it was not refused\n")
                    os._exit(2)
                os._exit(1)
            except BaseException as error:
                sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
                os._exit(2)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(name, {0: "escaped", 1: "refused", 2: "broken"}.get(status, "refused"))
        for leftover in (W + "/.codex", W + "/.agents"):
            if os.path.islink(leftover):
                os.unlink(leftover)
            elif os.path.isdir(leftover):
                subprocess.run(["rm", "-rf", leftover], stderr=subprocess.DEVNULL)
