#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# iperf3 -J exits with 0 when the test failed; without -J with 1.
#
# Seen with iperf 3.12 (Debian 12, 3.12-1+deb12u2), 2026-11-28, against a port where nothing listens:
#   iperf3     exit code 1
#   iperf3 -J  exit code 0, the file has no intervals, and "error": "unable to connect to server: Connection refused"
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

code=0
iperf3 -c 127.0.0.1 -p "$port" || code=$?
json_code=0
iperf3 -c 127.0.0.1 -p "$port" -J >client.json || json_code=$?
iperf3 --version | head -n 1
echo "exit code $code, with -J $json_code: $(grep error client.json)"
grep -q '"iperf 3.12"' client.json
grep -q 'unable to connect' client.json
test "$code" = 1
test "$json_code" = 0
echo ok
