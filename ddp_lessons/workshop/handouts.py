"""What an instructor hands out: links and tokens that can be typed from paper, and a page of strips to cut."""

from __future__ import annotations

import contextlib
import html
import ipaddress
import secrets
import socket
from collections.abc import Iterable

import psutil

_LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"  # no character that looks like another
_LETTERS_OF_A_TOKEN = 12  # 31 ** 12: too many to guess over a network
_ANYBODYS = "192.0.2.1"  # reserved for documentation; nothing is sent there
_NOT_FOR_A_ROOM = ("docker", "br-", "veth", "virbr", "cni", "podman", "lxc")  # networks inside this machine

_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Links to cut out</title>
<style>
body {{ font: 12pt sans-serif; margin: 1em }}
p {{ border-bottom: 1px dashed; margin: 0; padding: 0.9em 0; line-height: 1.6; break-inside: avoid }}
code {{ font-size: 15pt }}
</style>
{strips}
</html>
"""
_STRIP = """<p><b>Learner {number:02}</b> &nbsp; In a browser, open <code>{host}</code> and enter the token \
<code>{token}</code><br><small>or open <a href="{link}">{link}</a></small></p>"""


def new_token() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(_LETTERS_OF_A_TOKEN))


def address(name: str, port: int) -> str:
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


def strips(links: Iterable[str]) -> str:
    """A page to print and cut, with the address and the token of each learner."""
    rows = []
    for number, link in enumerate(map(html.escape, links), 1):
        host, _, token = link.removeprefix("http://").partition("/?token=")
        rows.append(_STRIP.format(number=number, host=host, token=token, link=link))
    return _PAGE.format(strips="\n".join(rows))


def own_numbers() -> list[str]:
    """The IP addresses of this machine, the likeliest first. Networks in a room rarely know its hostname."""
    states = psutil.net_if_stats()
    numbers = [
        one.address
        for interface, addresses in psutil.net_if_addrs().items()
        for one in addresses
        if one.family == socket.AF_INET
        and interface in states
        and states[interface].isup
        and not interface.startswith(_NOT_FOR_A_ROOM)
        and not ipaddress.ip_address(one.address).is_loopback
        and not ipaddress.ip_address(one.address).is_link_local
    ]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, contextlib.suppress(OSError):
        asking.connect((_ANYBODYS, 9))  # reads the routing table and sends nothing
        likeliest = asking.getsockname()[0]
        numbers.sort(key=lambda number: number != likeliest)
    return numbers
