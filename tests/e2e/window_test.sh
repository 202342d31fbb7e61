#!/bin/bash
# Windows of memory with the real binary. window-test: within a team and over the network, its reports, and that a wrong byte
# or a killed rank makes it fail with the right words and code. Then measurements whose buffers lie in windows (--window).
# Usage: window_test.sh PATH/collctl. Exit 1 when a case failed.
set -u
. "$(dirname "$0")/local_common.sh"

case_is "ranks as processes, with reports in files"
run run -n 3 window-test --iters 5 -o "$work/w.json" -o "$work/w.svg"
is_code 0
has_out "verdict: passed"
! grep -qF FAIL "$out" || fail "standard output has 'FAIL'"
python3 - "$work" <<'PY' || fail "the files are not as expected"
import json, sys, xml.dom.minidom
report = json.load(open(sys.argv[1] + "/w.json"))
assert len(report["pairs"]) == 6 and all(p["path"] == "window" for p in report["pairs"])
picture = xml.dom.minidom.parse(sys.argv[1] + "/w.svg")
tips = [t.firstChild.data for t in picture.getElementsByTagName("title")]
assert any(t.startswith("rank 0 of ") and " to rank 1 of " in t and "(window)" in t for t in tips), tips
PY

# A pair measures for a share of the operation's time, however many iterations are asked for.
case_is "ranks that do not map each other's memory; more iterations than fit: those that wait for a pair stay patient"
run run -n 3 window-test --transport net --iters 1000000 --op-timeout 10 --json
is_code 8
python3 - "$out" <<'PY' || fail "the JSON is not as documented"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["schema"] == "collctl.window-test/1", report["schema"]
assert report["verdict"]["ok"] is False  # collectives cannot work from window to window there
assert {c["name"] for c in report["checks"] if c["status"] != "pass"} == {"collectives"}, report["checks"]
assert [c["status"] for c in report["checks"] if c["name"] == "times"] == ["pass"], report["checks"]
pairs = {(p["from"], p["to"]): p for p in report["pairs"]}
assert set(pairs) == {(a, b) for a in range(3) for b in range(3) if a != b}
assert all(p["path"] == "NET/Socket" and p["put_us"] > 0 and p["get_GBps"] > 0 for p in pairs.values())
PY

case_is "a wrong byte, in a window and over the network"
COLLCTL_FAULT=corrupt:rank=1:step=0 run run -n 3 window-test --iters 2 --json
is_code 7
has_err "aliasing: rank 0: what rank 1 wrote into this rank's window: byte"
has_out '"code":"wrong-data"'
COLLCTL_FAULT=corrupt:rank=1:step=0 run run -n 2 window-test --transport net --iters 2
is_code 7
has_out "  link rank 1 -> rank 0"

case_is "a killed rank"
begin run -n 3 -v window-test --iters 1000000 --op-timeout 3600
await -of "$launcher" line "$err" "Window 40 :"
victim=$(children | awk '/__rank/ { print $1 }' | sed -n 2p)
kill -KILL "$victim"
end
is_code 5
has_err "rank 1 (pid $victim"
grep -qE '^aliasing +pass' "$out" || fail "what was found before is not told"
has_out "the job broke off: rank 1 (pid"

case_is "a slot of addresses that cannot be filled is not tested; windows that are too small for the buffers"
COLLCTL_WINDOW_STRIDE=4294967296 COLUMNS=1000 run window-test -n 2 --iters 2
is_code 8
has_out "  exhaustion: rank 0: a rank has 4 GiB of addresses for windows"
COLLCTL_WINDOW_STRIDE=2097152 run run -n 2 allreduce --window -b 16M -e 16M
is_code 3
has_err "no room for "
has_err "COLLCTL_WINDOW_STRIDE"

case_is "a measurement in windows, which the header and the rows say"
run run -n 4 allreduce --window --algo two-shot -b 4 -e 1M -f 8 --misalign 4 --iters 3 --json
is_code 0
python3 - "$out" <<'PY' || fail "the JSON is not as documented"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["windows"]["teams"] == [{"ranks": [0, 1, 2, 3]}], report["windows"]
assert report["windows"]["bytes"] >= 2 << 20 and "note" not in report["windows"]
assert len(report["results"]) == 7
for row in report["results"]:
    assert row["straight"] is True and row["algorithm"] == "two-shot", row
    assert row["out_of_place"]["wrong"] == 0 and row["in_place"]["wrong"] == 0, row
PY

run run -n 2 alltoall --window --algo one-shot -b 1K -e 1K --iters 3
is_code 0
has_out "# windows: "
has_out " of each rank's buffers, team of ranks 0-1"
grep -qE '^ +1024 .* direct$' "$out" || fail "no row says direct"

# Each rank of `joined` by itself; one after another they come to `codes`.
joined=(allreduce --window -b 4 -e 256K -f 16 --iters 3 --json)
join_ranks() { # a shell command before each rank: 0, 1, ...
  local port size=$# rank=0 pids=() pid
  port=$(python3 -c 'import random, socket
while True:
    port = random.randrange(20000, 30000)
    try: socket.socket().bind(("127.0.0.1", port))
    except OSError: continue
    print(port)
    break')
  : >"$out"
  : >"$err"
  while [ $# -gt 0 ]; do
    (eval "$1"; exec timeout -k 5 300 "$collctl" run --join 127.0.0.1:$port --rank $rank --size $size \
      "${joined[@]}" >>"$out" 2>>"$err" </dev/null) &
    pids+=($!)
    rank=$((rank + 1))
    shift
  done
  codes=
  for pid in "${pids[@]}"; do wait "$pid"; codes="$codes$? "; done
}

case_is "a rank that is short of addresses is named by all"
join_ranks : "ulimit -v 4000000" :
[ "$codes" = "3 3 3 " ] || fail "exit codes are '$codes'"
[ "$(grep -cE 'error: rank [02]: --window: (.*: )?rank 1 \(host' "$err")" = 2 ] || fail "rank 1 is not named by the others"
has_err "error: rank 1: --window: "

case_is "ranks of one machine that act as two hosts put to each other by sockets"
joined=(window-test --iters 5 --json)
join_ranks "export COLLCTL_HOSTID=a" "export COLLCTL_HOSTID=b" "export COLLCTL_HOSTID=b"
[ "$codes" = "8 8 8 " ] || fail "exit codes are '$codes'"  # collectives between windows need one team
has_out '"path":"NET/Socket"'
has_out '"path":"window"'

conclude
