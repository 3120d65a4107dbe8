# ruff: noqa
# Put together and run inside the sandbox by test_attacks.py.
def write_outside():
    open(O + "/victim", "w").write("x")


def append_outside():
    open(O + "/victim", "a").write("x")


def create_outside():
    open(O + "/new", "x").close()


def truncate_by_path():
    os.truncate(O + "/victim", 0)


def unlink_outside():
    os.unlink(O + "/victim")


def rmdir_outside():
    os.rmdir(O + "/folder")


def mkdir_outside():
    os.mkdir(O + "/more")


def rename_outside():
    os.rename(O + "/victim", O + "/moved")


def rename_into_work():
    os.rename(O + "/victim", W + "/stolen")


def rename_out_of_work():
    os.rename(W + "/file", O + "/victim")


def exchange():
    sys_(316, 276, -100, (W + "/file").encode(), -100, (O + "/victim").encode(), 2)


def symlink_outside():
    os.symlink("/etc/passwd", O + "/link")


def through_symlink():
    os.path.lexists(W + "/s1") or os.symlink(O, W + "/s1")
    open(W + "/s1/victim", "w").write("x")


def through_symlinked_file():
    os.symlink(O + "/victim", W + "/s2")
    open(W + "/s2", "w").write("x")


def hardlink_in():
    os.link(O + "/victim", W + "/hard")
    open(W + "/hard", "w").write("x")


def hardlink_out():
    os.link(W + "/file", O + "/hard")


def fifo_outside():
    os.mkfifo(O + "/fifo")


def socket_file_outside():
    os.mknod(O + "/sock", stat.S_IFSOCK | 0o600)


def chmod_outside():
    os.chmod(O + "/victim", 0o777)


def chmod_by_descriptor():
    os.fchmod(os.open(O + "/victim", os.O_RDONLY), 0o777)


def chown_outside():
    os.chown(O + "/victim", os.getuid(), os.getgid())


def utime_outside():
    os.utime(O + "/victim", (1, 1))


def xattr_outside():
    os.setxattr(O + "/victim", "user.x", b"x")


def by_proc_root():
    open("/proc/self/root" + O + "/victim", "w").write("x")


def by_proc_one_root():
    open("/proc/1/root" + O + "/victim", "w").write("x")


def by_proc_cwd():
    os.chdir(O)
    open("/proc/self/cwd/victim", "w").write("x")


def by_directory_descriptor():
    open(os.open("victim", os.O_WRONLY, dir_fd=os.open(O, os.O_RDONLY)), "w").write("x")


def by_path_descriptor():
    open("/proc/self/fd/%d" % os.open(O + "/victim", os.O_PATH), "w").write("x")


def by_reopened_stdin():
    open("/proc/self/fd/0", "w").write("x")


def by_dev_stdin():
    open("/dev/stdin", "w").write("x")


def reopened_read_only():
    open("/proc/self/fd/%d" % os.open(O + "/victim", os.O_RDONLY), "w").write("x")


def unnamed_file():
    sys_(
        265,
        37,
        -100,
        ("/proc/self/fd/%d" % os.open(W, os.O_TMPFILE | os.O_RDWR)).encode(),
        -100,
        (O + "/t").encode(),
        0x400,
    )


def shared_mapping():
    mapped = mmap.mmap(os.open(O + "/victim", os.O_RDWR), 4)
    mapped[0] = 0


def dotdot():
    open(W + "/../outside/victim", "w").write("x")


def inode_flags():
    fcntl.ioctl(os.open(O + "/victim", os.O_RDONLY), 0x40086602, struct.pack("l", 0x40))


def remount():
    sys_(165, 40, b"none", b"/", None, 4096 | 32, None)


def bind_over():
    sys_(165, 40, O.encode(), W.encode(), None, 4096, None)


def new_mount():
    sys_(165, 40, b"tmpfs", W.encode(), b"tmpfs", 0, None)


def unmount_root():
    sys_(166, 39, W.encode(), 2)


def new_mount_interface():
    sys_(430, 430, b"tmpfs", 0)


def copy_tree():
    sys_(428, 428, -100, b"/", 1)


def loosen_mount():
    sys_(442, 442, -100, b"/", 0x8000, struct.pack("QQQQ", 0, 1, 0, 0), 32)


def handle():
    sys_(
        303,
        264,
        -100,
        b"/",
        ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128)),
        ctypes.byref(ctypes.c_int()),
        0,
    )


def open_by_handle():
    sys_(304, 265, os.open("/", os.O_RDONLY), bytes(136), 0)


def change_root():
    os.chroot(O)


def core_pattern():
    open("/proc/sys/kernel/core_pattern", "r+").write(open("/proc/sys/kernel/core_pattern").read())


def sysctl():
    open("/proc/sys/kernel/hostname", "r+").write(platform.node())


def sysrq():
    open("/proc/sysrq-trigger", "w").write("?")


def sys_tree():
    open("/sys/kernel/mm/transparent_hugepage/enabled", "w").write("madvise")


def cgroup():
    os.mkdir("/sys/fs/cgroup/unified/made-by-attack")


def oom_score_of_first():
    open("/proc/1/oom_score_adj", "w").write("0")


def disk():
    open("/dev/vda", "rb")


def memory_device():
    open("/dev/mem", "rb")


def kernel_log():
    open("/dev/kmsg", "w").write("x")


def git_config():
    open(W + "/.git/config", "w").write("x")


def git_hook():
    open(W + "/.git/hook", "x").close()


def git_unlink():
    os.unlink(W + "/.git/config")


def git_rename():
    os.rename(W + "/.git", W + "/moved")


def git_exchange():
    os.mkdir(W + "/fake")
    sys_(316, 276, -100, (W + "/fake").encode(), -100, (W + "/.git").encode(), 2)


def git_into():
    os.rename(W + "/file", W + "/.git/config")


def git_hardlink():
    os.link(W + "/.git/config", W + "/linked")
    open(W + "/linked", "w").write("x")


def git_by_descriptor():
    open(os.open("config", os.O_WRONLY, dir_fd=os.open(W + "/.git", os.O_PATH)), "w").write("x")


def git_chmod():
    os.chmod(W + "/.git/config", 0o777)


def git_remove():
    subprocess.run(["rm", "-rf", W + "/.git"], stderr=subprocess.DEVNULL)
    if os.path.exists(W + "/.git/config"):
        raise OSError("still there")


def missing_codex():
    os.mkdir(W + "/.codex")
    open(W + "/.codex/config.toml", "w").write("x")


def missing_codex_inside():
    open(W + "/.codex/config.toml", "w").write("x")


def missing_codex_link():
    os.symlink(O, W + "/.codex")


def missing_codex_rename():
    os.mkdir(W + "/c")
    os.rename(W + "/c", W + "/.codex")


def missing_agents():
    os.mkdir(W + "/.agents")


def missing_replaced():
    os.rmdir(W + "/.agents")
    os.mkdir(W + "/.agents")


def missing_chmod():
    os.chmod(W + "/.agents", 0o777)
