"""The address of the server: a socket on this machine or its network."""

import errno
import ipaddress
import re
import socket
from contextlib import suppress

from comparo.errors import OptionError, pip_install

HOST = "127.0.0.1"
PORT = 8377  # the default: any port that is rarely used would do
LOCAL = ("localhost", "127.0.0.1", "::1")
_PUBLIC = re.compile(r"(https?://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d+)?)((?:/[\w.~-]+)*)/?", re.ASCII | re.IGNORECASE)


def check_installed() -> None:
    """Raise an ImportError with the pip command if the server's libraries are missing."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(f"comparo vote needs {error.name}: {pip_install('vote')}") from error


def is_local(host: str) -> bool:
    """Whether only this machine can reach a server at this host.

    >>> is_local("127.0.0.1"), is_local("localhost"), is_local("::1"), is_local("0.0.0.0")
    (True, True, True, False)
    """
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def open_socket(host: str, port: int | None, last: int | None = None) -> socket.socket:
    """A socket that listens at a host and port; without `port` at the first free of `last`, `PORT` and any other.

    A ValueError says what is wrong with the host, or that the port is taken.
    """
    wanted = [port] if port is not None else [*([last] if last else []), PORT, 0]
    for number in wanted:
        try:
            family, *_, address = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0]
            is_both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
            return socket.create_server(address[:2], family=family, backlog=128, dualstack_ipv6=is_both)
        except socket.gaierror as error:
            raise OptionError("host", host, f"is no address that is known ({error.strerror})") from error
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise OptionError("host", host, "is not an address of this machine; 0.0.0.0 is all of them") from error
            if port is not None or number == 0:
                why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be opened ({error.strerror})"
                raise OptionError("port", number, f"{why}; choose another, or leave it out") from error
    raise AssertionError("a free port is tried last")


def public_url(behind: str) -> str:
    """The public URL of a proxy as browsers write its origin, without a last slash; a ValueError if it is invalid.

    >>> public_url("https://Votes.example:443/class/")
    'https://votes.example/class'
    """
    found = _PUBLIC.fullmatch(behind)
    if found is None:
        raise OptionError("behind", behind, "is not the public address of a proxy; give it as https://HOST/PREFIX")
    origin = found[1].lower()
    return origin.removesuffix(":443" if origin.startswith("https") else ":80") + found[2]


def origin_of(listening: socket.socket, host: str) -> str:
    """The URL http://HOST:PORT of a server; for an unspecified host, such as 0.0.0.0, with this machine's address."""
    port = listening.getsockname()[1]
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_unspecified:
            host = _address(listening.family)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _address(family: int) -> str:
    """This machine's address in its network, found without sending anything."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:  # addresses for documentation (RFC 5737, RFC 3849), which nobody has
            probe.connect(("192.0.2.1" if family == socket.AF_INET else "2001:db8::1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
