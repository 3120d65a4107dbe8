"""The fixed part of every profile: the permissions of confined commands regardless of their access to files and network.

The names were compared with Chromium's and Codex's profiles. Some are omitted on purpose: launch services and Apple events
(``open`` and ``osascript`` leave the sandbox), the pasteboard, the keychain, the window server, and programs that run outside
of the sandbox (as Codex allows for ``ps``).
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "BASE",
    "DNS_SOCKET",
    "NETWORK_SERVICES",
    "PLATFORM",
    "PREFERENCES",
    "TERMINALS",
    "TRUST_SERVICES",
    "operation",
]


def operation(verb: str, operations: str, filters: Iterable[str] = ()) -> str:
    """Return one statement, such as ``(allow file-read* FILTER ...)``, with one filter per line."""
    return f"({verb} {operations}" + "".join(f"\n  {part}" for part in filters) + ")"


def _name_rules(kind: str, names: str) -> list[str]:
    return [f'({kind} "{name}")' for name in names.split()]


def _prefix_rules(*names: str) -> list[str]:
    return [f'(sysctl-name-prefix "{name}")' for name in names]


_CPU = """
    hw.activecpu hw.busfrequency_compat hw.byteorder hw.cacheconfig hw.cachelinesize hw.cachelinesize_compat hw.cachesize
    hw.cpu64bit_capable hw.cpufamily hw.cpufrequency hw.cpufrequency_compat hw.cpufrequency_max hw.cpusubfamily hw.cpusubtype
    hw.cputype hw.l1dcachesize hw.l1dcachesize_compat hw.l1icachesize hw.l1icachesize_compat hw.l2cachesize
    hw.l2cachesize_compat hw.l3cachesize hw.l3cachesize_compat hw.logicalcpu hw.logicalcpu_max hw.machine hw.model hw.ncpu
    hw.nperflevels hw.packages hw.physicalcpu hw.physicalcpu_max hw.tbfrequency hw.tbfrequency_compat hw.vectorunit
    machdep.cpu.brand_string sysctl.proc_cputype sysctl.proc_translated
"""
_MEMORY = "hw.memsize hw.pagesize hw.pagesize_compat kern.usrstack64 vm.loadavg"
_SYSTEM = """
    kern.hostname kern.osproductversion kern.osrelease kern.ostype kern.osvariant_status kern.osversion kern.secure_kernel
    kern.version
"""
_LIMITS = "kern.argmax kern.maxfiles kern.maxfilesperproc kern.maxproc kern.maxprocperuid kern.ngroups"

BASE = (
    "; Programs: their children inherit the profile and can reach only one another.",
    operation("allow", "process-fork"),
    operation("allow", "signal process-info*", ["(target same-sandbox)"]),
    "; Facts about the processor, the memory, the system and its limits.",
    operation(
        "allow",
        "sysctl-read",
        [
            *_name_rules("sysctl-name", f"{_CPU} {_MEMORY} {_SYSTEM} {_LIMITS}"),
            *_prefix_rules("hw.optional.", "hw.perflevel", "kern.proc.pgrp.", "kern.proc.pid.", "net.routetable."),
        ],
    ),
    "; Reads the processor's grade. It counts as writing because it passes a buffer. Java needs it.",
    operation("allow", "sysctl-write", _name_rules("sysctl-name", "kern.grade_cputype")),
    "; Names of users and groups, the log, power assertions.",
    operation(
        "allow",
        "mach-lookup",
        _name_rules(
            "global-name",
            "com.apple.system.opendirectoryd.libinfo com.apple.system.opendirectoryd.membership com.apple.logd"
            " com.apple.system.logger com.apple.PowerManagement.control",
        ),
    ),
    "; The host's own ports, as in the policy of Codex. Those that change the system also require the superuser.",
    operation("allow", "mach-host*"),
    operation("allow", "iokit-open", _name_rules("iokit-registry-entry-class", "RootDomainUserClient")),
    "; Semaphores (Python's multiprocessing), and the registration of OpenMP runtimes.",
    operation("allow", "ipc-posix-sem"),
    operation(
        "allow",
        "ipc-posix-shm-read-data ipc-posix-shm-write-create ipc-posix-shm-write-unlink",
        ['(ipc-posix-name-regex #"^/__KMP_REGISTERED_LIB_[0-9]+$")'],
    ),
    "; Devices without content.",
    operation(
        "allow",
        "file-read* file-test-existence file-write-data",
        [
            '(require-all (literal "/dev/null") (vnode-type CHARACTER-DEVICE))',
            '(require-all (literal "/dev/zero") (vnode-type CHARACTER-DEVICE))',
        ],
    ),
    operation(
        "allow",
        "file-read* file-test-existence",
        ['(literal "/dev/random")', '(literal "/dev/urandom")', '(literal "/dev/autofs_nowait")'],
    ),
    operation(
        "allow",
        "file-read* file-test-existence file-write-data file-ioctl",
        ['(require-all (literal "/dev/dtracehelper") (vnode-type CHARACTER-DEVICE))'],
    ),
    "; A command's own descriptors by name.",
    operation("allow", "file-read* file-test-existence file-write-data", ['(subpath "/dev/fd")']),
)

TERMINALS = '(regex #"^/dev/(tty|pty)[p-w][0-9a-f]+$")'
"""Pseudo-terminals. They can be inspected, but only their creator can open them."""

PREFERENCES = (
    "; Preferences, to read.",
    operation("allow", "ipc-posix-shm-read*", ['(ipc-posix-name-prefix "apple.cfprefs.")']),
    operation("allow", "mach-lookup", _name_rules("global-name", "com.apple.cfprefsd.agent com.apple.cfprefsd.daemon")),
    operation("allow", "user-preference-read"),
)
"""Statements for reading preferences. Used only if nothing is denied, because the daemon reads files on behalf of others."""

TRUST_SERVICES = "com.apple.trustd com.apple.trustd.agent com.apple.SystemConfiguration.configd"
"""Services that check certificates and provide the system's proxy settings."""

NETWORK_SERVICES = (
    f"{TRUST_SERVICES} com.apple.SystemConfiguration.DNSConfiguration com.apple.SystemConfiguration.NetworkInformation"
    " com.apple.SystemConfiguration.SCNetworkReachability com.apple.dnssd.service com.apple.networkd com.apple.ocspd"
)
"""The services in :data:`TRUST_SERVICES`, and the services that resolve names."""

DNS_SOCKET = '(literal "/private/var/run/mDNSResponder")'

PLATFORM = (
    "/Library/Apple",
    "/Library/Developer/CommandLineTools",
    "/Library/Frameworks",
    "/Library/Preferences/Logging",
    "/System/Cryptexes",
    "/System/Library",
    "/System/Volumes/Preboot/Cryptexes",
    "/System/iOSSupport",
    "/bin",
    "/private/etc/group",
    "/private/etc/hosts",
    "/private/etc/localtime",
    "/private/etc/passwd",
    "/private/etc/protocols",
    "/private/etc/resolv.conf",
    "/private/etc/services",
    "/private/etc/shells",
    "/private/etc/ssl",
    "/private/var/db/DarwinDirectory",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
    "/private/var/db/xcode_select_link",
    "/private/var/select",
    "/sbin",
    "/usr",
)
"""Paths that programs must read in order to start. They are used if reading is denied by default."""
