"""A network of real packets: every node in a network namespace of its own, joined by this process.

    python -m tests.cluster.switch SEED NAME SUBNET COUNT

It makes the namespaces NAME1, NAME2, ... with the addresses SUBNET.1, SUBNET.2, ..., each with a
TUN device whose packets come here, and a device NAME0 with the address SUBNET.254 for the test
itself, whose packets meet no faults. Packets between nodes are dropped or held as the rules say, so
TCP meets real loss, real delay and cuts that nobody is told about, on any kernel with TUN. When
stdin ends everything is removed.
"""

import asyncio
import contextlib
import fcntl
import os
import random
import struct
import subprocess
import sys
from collections.abc import Sequence

from tests.cluster.link_rules import Rules, obey

TUN_DEVICE = "/dev/net/tun"
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_REQUEST = struct.Struct("16sH22x")
PACKET_BYTES_MAX = 2_048
OUTSIDE = 254
# The last byte of an IPv4 packet's destination address.
_TARGET_OFFSET = 19
_IPV4_HEADER_BYTES = 20
# Packets taken from one device before the others have their turn.
BURST_PACKETS = 64


class Switch:
    """Packets from device to device, by the last byte of their destination."""

    def __init__(self, rules: Rules, seed: int) -> None:
        self._rules = rules
        self._chance = random.Random(seed)
        self._loop = asyncio.get_running_loop()
        self._devices: dict[int, int] = {}

    def attach(self, number: int, descriptor: int) -> None:
        self._devices[number] = descriptor
        self._loop.add_reader(descriptor, self._read, number, descriptor)

    def _read(self, source: int, descriptor: int) -> None:
        for _ in range(BURST_PACKETS):
            try:
                packet = os.read(descriptor, PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                # The namespace is being removed, and its device with it.
                self._loop.remove_reader(descriptor)
                return
            self._pass(source, packet)

    def _pass(self, source: int, packet: bytes) -> None:
        if len(packet) < _IPV4_HEADER_BYTES or packet[0] >> 4 != 4:
            return
        target = packet[_TARGET_OFFSET]
        rule = self._rules.of(source, target)
        if target not in self._devices or rule.is_cut:
            return
        if rule.loss > 0 and self._chance.random() < rule.loss:
            return
        if rule.delay_seconds > 0:
            self._loop.call_later(rule.delay_seconds, self._write, target, packet)
        else:
            self._write(target, packet)

    def _write(self, target: int, packet: bytes) -> None:
        # A full or vanished device loses packets, as networks do.
        with contextlib.suppress(OSError):
            os.write(self._devices[target], packet)


def open_tun(name: str) -> int:
    descriptor = os.open(TUN_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, _TUNSETIFF, _REQUEST.pack(name.encode(), _IFF_TUN | _IFF_NO_PI))
    return descriptor


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, stdin=subprocess.DEVNULL)


def open_outside(name: str, subnet: str) -> int:
    device = f"{name}0"
    descriptor = open_tun(device)
    ip("address", "add", f"{subnet}.{OUTSIDE}/24", "dev", device)
    ip("link", "set", device, "up")
    return descriptor


def open_inside(name: str, subnet: str, number: int) -> int:
    """The device keeps its descriptor here when it moves into the namespace."""
    space = device = f"{name}{number}"
    ip("netns", "add", space)
    descriptor = open_tun(device)
    ip("link", "set", device, "netns", space)
    ip("-n", space, "address", "add", f"{subnet}.{number}/24", "dev", device)
    ip("-n", space, "link", "set", device, "up")
    ip("-n", space, "link", "set", "lo", "up")
    return descriptor


async def serve(seed: int, devices: dict[int, int]) -> None:
    rules = Rules()
    switch = Switch(rules, seed)
    for number, descriptor in devices.items():
        switch.attach(number, descriptor)
    await obey(rules)


def main(arguments: Sequence[str]) -> None:
    seed, name, subnet, count = arguments
    numbers = range(1, int(count) + 1)
    try:
        devices = {number: open_inside(name, subnet, number) for number in numbers}
        devices[OUTSIDE] = open_outside(name, subnet)
        asyncio.run(serve(int(seed), devices))
    finally:
        for number in numbers:
            # One that was not made yet cannot be removed.
            subprocess.run(["ip", "netns", "del", f"{name}{number}"], check=False)


if __name__ == "__main__":
    main(sys.argv[1:])
