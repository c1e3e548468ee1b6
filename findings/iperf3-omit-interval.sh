#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# iperf3: the interval in which -O ends has a start without its sign, and a rate too low.
#
# Seen with iperf 3.12 (Debian 12, 3.12-1+deb12u2), 2026-11-28, with -b 20M -O 3 -i 2, at the client and at the server:
#   start 0.00 end 2.00 seconds 2.00 omitted  20.4 Mbit/s
#   start 1.00 end 2.02 seconds 3.02          13.5 Mbit/s
#   start 2.02 end 4.01 seconds 1.98          20.1 Mbit/s
# Clock and bytes restart at 3 s, the interval does not: it began 1 s before, told as 1.00, and its bytes of 2 s are divided
# by 3 s. With -i 1 it happens at a server whose timers run late, as on a slow link; then start may exceed end.
#
# Needs Debian 12's packages; exits 77 without.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
skip() { echo "skipped: $1"; exit 77; }

for tool in apt-get dpkg-deb timeout python3; do command -v "$tool" >/dev/null || skip "needs $tool"; done
apt-get -qq -o APT::Sandbox::User=root download iperf3=3.12-1+deb12u2 libiperf0=3.12-1+deb12u2 \
    libsctp1=1.0.19+dfsg-2 || skip "needs the packages of Debian 12"
for package in *.deb; do dpkg-deb -x "$package" .; done
export PATH="$folder/usr/bin:$PATH" LD_LIBRARY_PATH="$(echo "$folder"/usr/lib/*-linux-gnu)"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

timeout 60 iperf3 -s -1 -J -i 2 -B 127.0.0.1 -p "$port" >server.json &
for _ in {1..50}; do
    timeout 30 iperf3 -c 127.0.0.1 -p "$port" -b 20M -t 4 -O 3 -i 2 -J >client.json
    grep -q sum_received client.json && break
    sleep 0.2
done
wait

python3 - <<'EOF'
import json

for side in ("client", "server"):
    log = json.load(open(f"{side}.json"))
    print(log["start"]["version"], side)
    sums = [interval["sum"] for interval in log["intervals"]]
    for one in sums:
        print("start {start:.2f} end {end:.2f} seconds {seconds:.2f}".format(**one), end=" ")
        print("omitted " * one["omitted"] + f"{one['bits_per_second'] / 1e6:.1f} Mbit/s")
    first = next(one for one in sums if not one["omitted"])
    assert log["start"]["version"] == "iperf 3.12"
    assert first["seconds"] > 1.5 * (first["end"] - first["start"]), "seconds agree with start and end"
    assert first["bits_per_second"] < 0.8 * 20e6, "the rate is that of the traffic"
print("ok")
EOF
