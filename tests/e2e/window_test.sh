#!/bin/bash
# Windows of memory with the real binary. window-test: ranks as processes and as threads, within a team and over the
# network, its reports, and that a wrong byte or a killed rank makes it fail with the right words and code. Then
# measurements whose buffers lie in windows (--window). Usage:
# window_test.sh PATH/collctl. Every case says what it expected; exit 1 when one failed.
set -u
. "$(dirname "$0")/local_common.sh"
lacks_out() { ! grep -qF -- "$1" "$out" || fail "standard output has '$1'"; }
for ranks in 2 5; do
  case_is "$ranks ranks as processes"
  run run -n $ranks window-test --iters 5
  is_code 0
  has_out "# Verdict: passed"
  lacks_out FAIL
done

case_is "ranks as threads"
run window-test -n 4 --rank-mode thread --iters 5
is_code 0
has_out "# Verdict: passed"

case_is "ranks that do not map each other's memory"
run window-test -n 3 --transport net --iters 5 --json
is_code 8
python3 - "$out" <<'PY' || fail "the JSON is not as documented"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["schema"] == "collctl.window-test/1", report["schema"]
assert report["verdict"]["ok"] is False  # collectives cannot work from window to window there
assert {c["name"] for c in report["checks"] if c["status"] != "pass"} == {"collectives"}, report["checks"]
pairs = {(p["from"], p["to"]): p for p in report["pairs"]}
assert set(pairs) == {(a, b) for a in range(3) for b in range(3) if a != b}
assert all(p["path"] == "NET/Socket" and p["put_us"] > 0 and p["get_GBps"] > 0 for p in pairs.values())
PY

case_is "reports in files"
run window-test -n 2 --iters 5 -o "$work/w.json" -o "$work/w.svg" --quiet
is_code 0
python3 - "$work" <<'PY' || fail "the files are not as expected"
import json, sys, xml.dom.minidom
report = json.load(open(sys.argv[1] + "/w.json"))
assert len(report["pairs"]) == 2 and all(p["path"] == "window" for p in report["pairs"])
picture = xml.dom.minidom.parse(sys.argv[1] + "/w.svg")
tips = [t.firstChild.data for t in picture.getElementsByTagName("title")]
assert any(t.startswith("rank 0 of ") and " to rank 1 of " in t and "(window)" in t for t in tips), tips
PY

case_is "a wrong byte"
COLLCTL_FAULT=corrupt:rank=1:step=0 run run -n 3 window-test --iters 2 --json
is_code 7
has_err "aliasing: rank 0: what rank 1 wrote into this rank's window: byte"
has_out '"code":"wrong-data"'

case_is "a wrong byte over the network"
COLLCTL_FAULT=corrupt:rank=1:step=0 run run -n 2 window-test --transport net --iters 2
is_code 7
has_out "# suspect link rank 1 -> rank 0"

case_is "a killed rank"
begin run -n 3 -v window-test --iters 1000000 --op-timeout 3600
await -of "$launcher" line "$err" "Window 40 :"
victim=$(children | awk '/__rank/ { print $1 }' | sed -n 2p)
kill -KILL "$victim"
end
is_code 5
has_err "rank 1 (pid $victim"
grep -qE '^  aliasing +pass' "$out" || fail "what was found before is not told"
has_out "the job broke off: rank 1 (pid"

# A pair measures for a share of the operation's time, however many iterations are asked for.
case_is "more iterations than fit: ranks that wait for a pair stay patient"
run run -n 3 window-test --transport net --iters 1000000 --op-timeout 10 --json
is_code 8
python3 - "$out" <<'PY' || fail "the times did not pass"
import json, sys
report = json.load(open(sys.argv[1]))
assert [c["status"] for c in report["checks"] if c["name"] == "times"] == ["pass"], report["checks"]
assert len(report["pairs"]) == 6, report["pairs"]
PY

case_is "a budget: pairs that are left are said, and are code 8"
run run -n 3 window-test --iters 1000000 --budget 2 --json
is_code 8
has_err "(--budget)"
python3 - "$out" <<'PY' || fail "the report does not say what was left out"
import json, sys
report = json.load(open(sys.argv[1]))
left = [c for c in report["checks"] if c["status"] == "not-tested"]
assert left and all("the budget of 2 s" in c["message"] for c in left), left
assert len(report["pairs"]) < 6, report["pairs"]
PY

case_is "a slot of addresses that cannot be filled is not tested"
COLLCTL_WINDOW_STRIDE=4294967296 run window-test -n 2 --iters 2
is_code 8
has_err "exhaustion: rank 0: a rank has 4 GiB of addresses for windows"

case_is "options that have no meaning here"
run run -n 2 window-test --algo ring
is_code 2
has_err "--algo has no meaning for window-test"
run window-test -n 2 -o "$work/w.xlsx"
is_code 2
has_err "expected a name that ends in .json"

case_is "a measurement in windows, ranks as processes"
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

case_is "the header and the rows say so"
run run -n 2 alltoall --window --algo one-shot -b 1K -e 1K --iters 3
is_code 0
has_out "# windows: "
has_out " of each rank's buffers, team of ranks 0-1"
grep -qE '^ +1024 .* direct$' "$out" || fail "no row says direct"

case_is "random operations in windows"
run run -n 3 soak --window --seed 7 --ops 150 -e 64K
is_code 0
has_out "every element right"

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

case_is "windows that are too small for the buffers"
COLLCTL_WINDOW_STRIDE=2097152 run run -n 2 allreduce --window -b 16M -e 16M
is_code 3
has_err "no room for "
has_err "COLLCTL_WINDOW_STRIDE"

case_is "--window where nobody would map anybody's memory"
run run -n 2 allreduce --window --transport net
is_code 2
has_err "--window with --transport net: no rank would map another's memory"

conclude
