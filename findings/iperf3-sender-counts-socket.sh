#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# iperf3's sender reports what its socket accepted, not what the network carried.
#
# Seen with iperf 3.12 (Debian 12, 3.12-1+deb12u2) on Linux 6.18, 2026-11-28: 10 s over a link of 0.512 Mbit/s, in one file
#   intervals  3.22 1.54 0 0 1.69 0 0 0 2.08 0 Mbit/s
#   sum_sent   0.86 Mbit/s, 1078760 bytes
#   sum_received  0.43 Mbit/s, 545896 bytes
# The send buffer takes about a megabyte at once; an interval is an amount of write() calls. Only sum_received is a rate of
# the path, and a client that ends by a signal has none.
#
# Needs Debian 12's packages, tc, and root or user namespaces; exits 77 without.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
skip() { echo "skipped: $1"; exit 77; }

for tool in apt-get dpkg-deb tc unshare python3; do command -v "$tool" >/dev/null || skip "needs $tool"; done
unshare -rn true 2>/dev/null || skip "needs root or user namespaces"
apt-get -qq -o APT::Sandbox::User=root download iperf3=3.12-1+deb12u2 libiperf0=3.12-1+deb12u2 \
    libsctp1=1.0.19+dfsg-2 || skip "needs the packages of Debian 12"
for package in *.deb; do dpkg-deb -x "$package" .; done
export iperf3="$folder/usr/bin/iperf3" LD_LIBRARY_PATH="$(echo "$folder"/usr/lib/*-linux-gnu)"

timeout 120 unshare -rn bash -euc '
    unshare -n bash -c "until ip link set v1 up; do sleep 0.1; done
        ip addr add 10.0.0.2/24 dev v1; exec timeout 90 $iperf3 -s -1" >/dev/null 2>&1 &
    while [ "$(readlink /proc/$!/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.1; done
    ip link add v0 type veth peer name v1 netns $!
    ip addr add 10.0.0.1/24 dev v0
    ip link set v0 up
    tc qdisc add dev v0 root tbf rate 512kbit burst 4k limit 60k
    until grep -qs sum_received client.json; do $iperf3 -c 10.0.0.2 -t 10 -J >client.json; sleep 0.3; done
    wait'

python3 - <<'EOF'
import json

log = json.load(open("client.json"))
rates = [interval["sum"]["bits_per_second"] / 1e6 for interval in log["intervals"]]
sent, received = log["end"]["sum_sent"], log["end"]["sum_received"]
print(log["start"]["version"])
print("intervals", *(f"{rate:.2f}" for rate in rates), "Mbit/s")
for name, end in (("sum_sent", sent), ("sum_received", received)):
    print(f"{name} {end['bits_per_second'] / 1e6:.2f} Mbit/s, {end['bytes']} bytes")
assert log["start"]["version"] == "iperf 3.12"
assert max(rates) > 2 * 0.512 and 0.0 in rates, "intervals follow the link"
assert received["bits_per_second"] <= 0.512e6 < sent["bits_per_second"], "the sender's sum follows the link"
print("ok")
EOF
