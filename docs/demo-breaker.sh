#!/usr/bin/env bash
# A target goes down for a while and comes back: its circuit opens, what is due
# waits and uses no attempts up, the target is tried with a few calls, and what
# waits drains slowly. docs/breaker.md explains what is to be seen.
#
#   make build && docs/demo-breaker.sh [SECONDS]     down for so long; 120 if not given
#
# It needs python3 for the target, and nothing else running on its ports.
set -euo pipefail
cd "$(dirname "$0")/.."
down=${1:-120}
jobs=20
export BELFRY_SERVER=http://127.0.0.1:18380
target=18381
tmp=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$tmp"' EXIT

say() { printf '\n\033[1m%s  %s\033[0m\n' "$(date +%T)" "$*"; }

# The target answers 200 and notes the second of each call.
cat >"$tmp/target.py" <<'PY'
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
log = open(sys.argv[2], "a", buffering=1)
class Target(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        print(time.strftime("%T"), self.headers["Belfry-Attempt"], file=log)
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *a): pass
ThreadingHTTPServer.request_queue_size = 512
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Target).serve_forever()
PY
start_target() {
  python3 "$tmp/target.py" $target "$tmp/calls" & target_pid=$!
  pids+=("$target_pid")
}

bin/belfry server --data-dir "$tmp/data" --listen 127.0.0.1:18380 --allow-targets 127.0.0.0/8 --log-level error &
pids+=($!)
until curl -sf $BELFRY_SERVER/readyz >/dev/null; do sleep 0.2; done
start_target

say "$jobs jobs, each due every 2 s"
for i in $(seq $jobs); do
  bin/belfry jobs create "demo-$i" --schedule '@every 2s' --url http://127.0.0.1:$target/hook -o name >/dev/null 2>&1
done
bin/belfry executions watch --all >"$tmp/watched" & pids+=($!)
sleep 6
tail -3 "$tmp/watched"

say "the target goes down for $down s"
kill "$target_pid"
sleep "$((down / 2))"
grep circuit "$tmp/watched"
say "half of that later, executions wait, and say why"
bin/belfry executions list demo-1 | head -4
bin/belfry jobs get demo-1 -o yaml | grep -E '^(not_running|in_flight)'
curl -s $BELFRY_SERVER/metrics | grep -E '^belfry_(breaker_transitions_total|overdue_jobs)'
sleep "$((down - down / 2))"

say "the target is back"
before=$(wc -l <"$tmp/calls")
start_target
sleep 25
grep circuit "$tmp/watched" | tail -2
say "calls by the second since: a few probes, then twice as many each second"
tail -n +"$((before + 1))" "$tmp/calls" | cut -d' ' -f1 | uniq -c | head -14
say "first attempts among them, and retries of what had failed before the circuit opened"
tail -n +"$((before + 1))" "$tmp/calls" | cut -d' ' -f2 | sort -n | uniq -c | awk '{print $1 " calls were attempt " $2}'
