# ruff: noqa
# Put together and run inside the sandbox by test_attacks.py.
# Runs inside the sandbox before each attack: names for the places, and raw system calls.
import ctypes, errno, fcntl, mmap, os, platform, signal, socket, stat, struct, subprocess, sys, time
from pathlib import Path

W, O, VICTIM, PORT, KEY = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
X86 = platform.machine() == "x86_64"
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def sys_(x86, arm, *args):
    values = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(x86 if X86 else arm), *values)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def escaped():
    print("ESCAPED")
