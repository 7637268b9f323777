"""Hosts of their own for brokers and ZooKeeper: network namespaces on one bridge, and links that are cut with nftables.

Wants root. Nothing of it is seen by other hosts, and all is gone with the processes that hold the namespaces.
"""

import os
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Literal

from bench.brokers.processes import WITHIN_S, eventually

How = Literal["drop", "reject with tcp reset"]
_CUT = "add table inet cut\nadd chain inet cut in {{ type filter hook input priority 0; }}\n{rules}"


class Network:
    """`hosts` by name. This process reaches all of them, and they reach each other and it."""

    def __init__(self, hosts: Sequence[str], ends: ExitStack) -> None:
        # Of the addresses that are for tests of networks (RFC 2544), those that belong to this process.
        self._prefix = f"198.{18 + os.getpid() // 256 % 2}.{os.getpid() % 256}"
        self._ends = ends
        self._numbers = {name: number for number, name in enumerate(hosts, 1)}
        self._bridge = self._namespace()
        self._inside(self._bridge, "ip", "link", "add", "name", "bridge0", "type", "bridge")
        self._inside(self._bridge, "ip", "link", "set", "bridge0", "up")
        self._namespaces = {name: self._namespace() for name in hosts}
        for name, pid in self._namespaces.items():
            self._plug(f"to-{name}", "eth0", pid)
            self._inside(pid, "ip", "address", "add", f"{self.address(name)}/24", "dev", "eth0")
            self._inside(pid, "ip", "link", "set", "eth0", "up")
            self._inside(pid, "ip", "link", "set", "lo", "up")
        own = f"kt{os.getpid()}"
        self._plug("to-tests", own, os.getpid())
        _run("ip", "address", "add", f"{self._prefix}.254/24", "dev", own)
        _run("ip", "link", "set", own, "up")

    def address(self, host: str) -> str:
        return f"{self._prefix}.{self._numbers[host]}"

    def on(self, host: str) -> list[str]:
        """What a command begins with that runs on this host."""
        return ["nsenter", f"--net=/proc/{self._namespaces[host]}/ns/net"]

    def cut(self, host: str, others: Sequence[str], how: How) -> None:
        """Nothing that these others send reaches the host; what it sends reaches them."""
        addresses = ", ".join(self.address(other) for other in others)
        rules = f"add rule inet cut in ip saddr {{ {addresses} }} meta l4proto tcp {how}\n"
        _run(*self.on(host), "nft", "-f", "-", given=_CUT.format(rules=rules))

    def unplug(self, host: str) -> None:
        """It reaches nobody, clients neither."""
        self._inside(self._namespaces[host], "ip", "link", "set", "eth0", "down")

    def heal(self) -> None:
        for pid in self._namespaces.values():
            self._inside(pid, "nft", "flush", "ruleset")
            self._inside(pid, "ip", "link", "set", "eth0", "up")

    def _namespace(self) -> int:
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        self._ends.callback(holder.wait)
        self._ends.callback(holder.kill)
        ours = os.readlink("/proc/self/ns/net")
        eventually(
            lambda: holder.poll() is not None or os.readlink(f"/proc/{holder.pid}/ns/net") != ours,
            what="the namespace is there",
        )
        assert holder.poll() is None, "unshare --net has failed: tests of networks want root"
        return holder.pid

    def _plug(self, port: str, name: str, pid: int) -> None:
        """A cable from the bridge to an interface of this process's namespace."""
        self._inside(self._bridge, "ip", "link", "add", port, "type", "veth", "peer", "name", name, "netns", str(pid))
        self._inside(self._bridge, "ip", "link", "set", port, "master", "bridge0", "up")

    def _inside(self, pid: int, *command: str) -> None:
        _run("nsenter", f"--net=/proc/{pid}/ns/net", *command)


def _run(*command: str, given: str = "") -> None:
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=WITHIN_S)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
