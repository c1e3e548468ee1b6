#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# ss counts retransmissions of packets that only came late: retrans over segs_out is not a loss rate.
#
# Seen with ss of iproute2 6.1.0-3 (Debian 12) on Linux 6.18, 2026-11-28: one packet in 64 comes some 20 ms late, none is lost
# (17 retransmissions in another run, all of them duplicates)
#   dropped 0, retransmitted 186, {'data_segs_out': 14539, 'dsack_dups': 185, 'reord_seen': 632}
# Of each retransmission the receiver says that it was a duplicate: retrans minus dsack_dups is nearer to the losses.
#
# Needs Debian 12's packages, tc, and root or user namespaces; exits 77 without.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
skip() { echo "skipped: $1"; exit 77; }

for tool in apt-get dpkg-deb tc unshare python3; do command -v "$tool" >/dev/null || skip "needs $tool"; done
unshare -rn true 2>/dev/null || skip "needs root or user namespaces"
apt-get -qq -o APT::Sandbox::User=root download iproute2=6.1.0-3 || skip "needs the packages of Debian 12"
dpkg-deb -x iproute2*.deb .
export PATH="$folder/bin:$folder/sbin:$PATH"

cat >transfer.py <<'EOF'
import socket, subprocess, sys, time

if sys.argv[1] == "receive":
    with socket.create_server(("10.0.0.2", 5000)) as server, server.accept()[0] as connection:
        while connection.recv(1 << 16):
            pass
else:
    with socket.create_connection(("10.0.0.2", 5000), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        for _ in range(800):  # 20 Mbit/s for 8 s
            connection.sendall(bytes(25_000))
            time.sleep(0.01)
        subprocess.run(["ss", "-tinOH", "dport", "=", "5000"], check=True)
        subprocess.run(["tc", "-s", "qdisc", "show", "dev", "v0"], check=True)
EOF
timeout 120 unshare -rn bash -euc '
    unshare -n bash -c "until ip link set v1 up; do sleep 0.1; done
        ip addr add 10.0.0.2/24 dev v1; exec timeout 90 python3 transfer.py receive" >/dev/null 2>&1 &
    while [ "$(readlink /proc/$!/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.1; done
    ip link add v0 gso_max_segs 1 type veth peer name v1 netns $!
    ip addr add 10.0.0.1/24 dev v0
    ip link set v0 up
    tc qdisc add dev v0 root handle 1: htb default 1 r2q 1000
    tc class add dev v0 parent 1: classid 1:1 htb rate 100mbit
    tc class add dev v0 parent 1: classid 1:2 htb rate 500kbit
    tc qdisc add dev v0 parent 1:1 handle 2: pfifo limit 10000
    tc qdisc add dev v0 parent 1:2 handle 3: pfifo limit 10000
    tc filter add dev v0 parent 1: protocol ip u32 match u16 0 0x003f at 4 flowid 1:2  # by the number in the IP header
    until python3 transfer.py send >seen.txt 2>/dev/null; do sleep 0.3; done'

python3 - <<'EOF'
import re
import subprocess

version = subprocess.run(["ss", "-V"], capture_output=True, text=True).stdout.strip()
text = open("seen.txt").read()
dropped = sum(map(int, re.findall(r"dropped (\d+)", text)))
found = {name: int(n) for name, n in re.findall(r"(data_segs_out|dsack_dups|reord_seen):(\d+)", text)}
retransmitted = int(re.search(r" retrans:\d+/(\d+)", text)[1])
print(version)
print(f"dropped {dropped}, retransmitted {retransmitted}, {found}")
assert "6.1.0" in version
assert dropped == 0 and retransmitted > 0
assert found["dsack_dups"] >= 0.9 * retransmitted, "retransmissions replace lost packets"
print("ok")
EOF
