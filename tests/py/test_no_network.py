"""No telemetry, no network: neither the library nor the programs know a function that could reach one."""
import pathlib
import re
import subprocess

import pytest

from nacre_c import BUILD, LIBRARY, PROGRAM

NETWORK = re.compile(r"^(socket|socketpair|connect|bind|listen|accept4?|send|sendto|sendmsg|recv|recvfrom|recvmsg|"
                     r"getaddrinfo|gethostby\w+|res_\w+|curl_\w+)(@.*)?$")
FILES = [LIBRARY, PROGRAM, *sorted(pathlib.Path(BUILD).glob("**/_core*.so"))]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_imports_nothing_that_opens_a_connection(path):
    listing = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in listing.splitlines() if line.strip()]
    assert "malloc" in {n.split("@")[0] for n in names} or len(names) > 10, "nm listed nothing"
    assert not [n for n in names if NETWORK.match(n)]
