#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A server's iperf3 -J --logfile is not a JSON file: each test, and the server's end, append a document.
#
# Seen with iperf 3.12 (Debian 12, 3.12-1+deb12u2), 2026-11-28, two tests and a SIGTERM:
#   json.load: Extra data
#   3 documents: 1 intervals; 1 intervals; 0 intervals, error "interrupt - the server has terminated"
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

timeout 60 iperf3 -s -J -B 127.0.0.1 -p "$port" --logfile server.json &
server=$!
for test in 1 2; do
    for _ in {1..50}; do
        timeout 30 iperf3 -c 127.0.0.1 -p "$port" -b 1M -t 1 >/dev/null && break
        sleep 0.2
    done
done
kill "$server"
wait "$server" || true

python3 - <<'EOF'
import json

text = open("server.json").read()
try:
    json.loads(text)
except json.JSONDecodeError as error:
    print(f"json.load: {error.msg}")
documents, decoder = [], json.JSONDecoder()
while text := text.lstrip():
    document, length = decoder.raw_decode(text)
    documents.append(document)
    text = text[length:]
print(f"{len(documents)} documents:", "; ".join(f"{len(one['intervals'])} intervals {one.get('error', '')}" for one in documents))
assert {one["start"]["version"] for one in documents} == {"iperf 3.12"}
assert len(documents) == 3 and "terminated" in documents[-1]["error"]
print("ok")
EOF
