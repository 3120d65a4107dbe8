# ruff: noqa
# Put together and run inside the sandbox by test_attacks.py.
def tcp_connect():
    socket.create_connection(("127.0.0.1", PORT), 1)


def tcp6():
    socket.socket(socket.AF_INET6, socket.SOCK_STREAM)


def tcp_listen():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()


def udp():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 53))


def raw_ip():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)


def packet():
    socket.socket(17, socket.SOCK_RAW)


def netlink():
    socket.socket(16, socket.SOCK_RAW, 0)


def vsock():
    socket.socket(40, socket.SOCK_STREAM)


def kernel_crypto():
    socket.socket(38, socket.SOCK_SEQPACKET)


def bluetooth():
    socket.socket(31, socket.SOCK_RAW, 1)


def unix_connect():
    socket.socket(socket.AF_UNIX).connect(O + "/server")


def unix_abstract():
    socket.socket(socket.AF_UNIX).connect("\0" + KEY)


def unix_bind():
    socket.socket(socket.AF_UNIX).bind(W + "/sock")


def unix_datagram():
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", O + "/datagrams")


def unix_pair_sendto():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", O + "/datagrams")


def unix_pair_sendmsg():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendmsg([b"x"], [], 0, O + "/datagrams")


def stream_pair_readdressed():
    socket.socketpair()[0].sendto(b"x", O + "/datagrams")


def high_bits_of_family():
    sys_(41, 198, (7 << 32) | 2, 1, 0)


def trace_me():
    sys_(101, 117, 0, 0, 0, 0)


def trace_victim():
    sys_(101, 117, 0x4206, VICTIM, 0, 0)


def trace_first():
    sys_(101, 117, 0x4206, 1, 0, 0)


def read_memory():
    sys_(310, 270, VICTIM, bytes(16), 1, bytes(16), 1, 0)


def write_memory():
    sys_(311, 271, VICTIM, bytes(16), 1, bytes(16), 1, 0)


def memory_file():
    open("/proc/%d/mem" % VICTIM, "rb")


def memory_of_first():
    open("/proc/1/mem", "rb")


def environment_of_first():
    "SECRET" in open("/proc/1/environ").read() or (_ for _ in ()).throw(OSError("nothing in it"))


def descriptors_of_first():
    os.readlink("/proc/1/fd/0")


def steal_descriptor():
    sys_(438, 438, os.pidfd_open(os.getppid()), 0, 0)


def compare_processes():
    sys_(312, 272, os.getpid(), os.getpid(), 0, 0, 0)


def signal_victim():
    os.kill(VICTIM, signal.SIGCONT)


def signal_parent_group():
    os.kill(-os.getpgid(VICTIM), 0)


def see_victim():
    open("/proc/%d/cmdline" % VICTIM).read() or (_ for _ in ()).throw(OSError("empty"))


def environment_of_victim():
    open("/proc/%d/environ" % VICTIM).read()


def limits_of_victim():
    sys_(302, 261, VICTIM, 7, struct.pack("QQ", 64, 64), None)


def priority_of_victim():
    os.setpriority(os.PRIO_PROCESS, VICTIM, 5)


def affinity_of_victim():
    os.sched_setaffinity(VICTIM, {0})


def scheduler_of_victim():
    os.sched_setscheduler(VICTIM, os.SCHED_BATCH, os.sched_param(0))


def io_priority_of_victim():
    sys_(251, 30, 1, VICTIM, (3 << 13))


def io_uring():
    sys_(425, 425, 4, bytes(120))


def bpf():
    sys_(321, 280, 0, bytes(128), 128)


def perf():
    sys_(298, 241, ctypes.create_string_buffer(struct.pack("II", 1, 112) + bytes(104)), 0, -1, -1, 0)


def page_faults():
    sys_(323, 282, 1)


def add_key():
    sys_(248, 217, b"user", b"x", b"y", 1, -3)


def session_keyring():
    sys_(250, 219, 0, -3, 0)


def request_key():
    sys_(249, 218, b"user", b"x", None, 0)


def new_user_namespace():
    sys_(272, 97, 0x10000000)


def new_mount_namespace():
    sys_(272, 97, 0x00020000)


def new_time_namespace():
    sys_(272, 97, 0x80)


def clone_namespace():
    sys_(56, 220, 0x10000000 | 17, 0, 0, 0, 0)


def clone_network_namespace():
    sys_(56, 220, 0x40000000 | 17, 0, 0, 0, 0)


def clone3():
    sys_(435, 435, struct.pack("QQQQQQQQ", 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64)


def join_namespace():
    sys_(308, 268, os.open("/proc/self/ns/net", os.O_RDONLY), 0)


def openat2():
    sys_(437, 437, -100, b"/etc/passwd", struct.pack("QQQ", 0, 0, 0), 24)


def terminal_input():
    fcntl.ioctl(os.openpty()[1], 0x5412, b"x")


def terminal_input_high_bits():
    sys_(16, 29, os.openpty()[1], (1 << 32) | 0x5412, b"x")


def line_discipline():
    fcntl.ioctl(os.openpty()[1], 0x5423, struct.pack("i", 0))


def host_name():
    socket.sethostname("x")


def set_time():
    time.clock_settime(time.CLOCK_REALTIME, time.time())


def module():
    sys_(313, 273, 0, b"", 0)


def swap_off():
    sys_(168, 225, b"/none")


def kernel_messages():
    sys_(103, 116, 3, bytes(64), 64)


def accounting():
    sys_(163, 89, None)


def fanotify():
    sys_(300, 262, 0, 0)


def set_uid_file():
    os.chmod(W + "/file", 0o4755)


def set_uid_created():
    os.open(W + "/suid", os.O_CREAT | os.O_WRONLY, 0o4755)


def set_gid_file():
    os.chmod(W + "/file", 0o2755)


def set_gid_by_descriptor():
    os.fchmod(os.open(W + "/file", os.O_RDONLY), 0o2755)


def set_gid_created():
    os.open(W + "/sgid", os.O_CREAT | os.O_WRONLY, 0o2755)


def set_gid_node():
    os.mknod(W + "/sgid-node", stat.S_IFREG | 0o2755)


def device_times():
    os.utime("/dev/full")


def new_message_queue():
    sys_(240, 180, (KEY + "new").encode(), os.O_RDWR | os.O_CREAT, 0o600, None)


def priority_of_user():
    os.setpriority(os.PRIO_USER, os.getuid(), os.getpriority(os.PRIO_PROCESS, 0))


def device_node():
    os.mknod(W + "/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))


def block_device_node():
    os.mknod(W + "/disk", stat.S_IFBLK | 0o666, os.makedev(254, 0))


def change_user():
    if os.getuid() == 0:
        os.setuid(1)
    else:
        os.setuid(0)


def more_capabilities():
    sys_(126, 91, struct.pack("II", 0x20080522, 0), struct.pack("IIIIII", 1 << 21, 1 << 21, 0, 0, 0, 0))


def sysv_memory():
    sys_(29, 194, int(KEY[-4:], 16) + 1, 64, 0)


def sysv_semaphore():
    sys_(64, 190, int(KEY[-4:], 16) + 1, 1, 0)


def message_queue():
    sys_(240, 180, (KEY + "q").encode(), os.O_RDWR, 0, None)


def shared_memory_file():
    open("/dev/shm/" + KEY, "r+").write("x")


def other_terminal():
    open("/dev/pts/%s" % os.environ["TERMINAL"], "w").write("x")


def core_dumps():
    sys_(302, 261, 0, 4, struct.pack("QQ", 1 << 20, 1 << 20), None)


def trace_by_dumpable():
    sys_(101, 117, 16, os.getppid(), 0, 0)


def inherited_descriptor():
    others = [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2]
    others = [
        fd
        for fd in others
        if os.path.exists("/proc/self/fd/%d" % fd) and "/proc/" not in os.readlink("/proc/self/fd/%d" % fd)
    ]
    if not others:
        raise OSError("none")


def no_new_privileges():
    if libc.prctl(39, 0, 0, 0, 0) == 1:
        raise OSError("set")


def detached_daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 3)
            time.sleep(0.5)
            open(W + "/late", "w").write("x")
        os._exit(0)
    os.wait()
    raise OSError("seen by the file it leaves")
