#!/bin/bash
# What a measurement is held against: the expected time, thresholds of a file, earlier runs, what a host must have. CPU ranks of
# this host. Usage: expected.sh PATH/collctl. Exit 1 when one failed.
set -u
. "$(dirname "$0")/local_common.sh"
json() { python3 -c "import json; d = json.load(open('$out')); assert $1, d['results'] if 'results' in d else d" 2>>"$err" || fail "not so: $1"; }
reduce=(run -n 2 allreduce -b 8 -e 64K -f 64 --iters 20)

case_is "collectives have an expected time, of what they were planned with"
for collective in allreduce barrier; do
  run run -n 2 $collective -b 4K -e 4K --iters 5 --warmup 1 --json
  is_code 0
  json "all(r['expected']['time_us'] > 0 and r['expected']['limited_by'] and r['expected']['source'] in ('model', 'bound') for r in d['results'])"
  json "all(abs(r['expected']['efficiency'] * r['out_of_place']['time_us'] / r['expected']['time_us'] - 1) < 0.01 for r in d['results'])"
done
run run -n 2 alltoallv -b 4K -e 4K --iters 5 --warmup 1 --json
is_code 0
json "all('expected' not in r for r in d['results'])"
run run -n 2 alltoallv --min-efficiency 0.5
is_code 2
has_err 'no model knows what alltoallv should take'
# Waited for one by one they take more than any model has.
run run -n 2 allreduce -b 4K -e 4K --iters 5 --sync each --json
is_code 0
json "all('expected' not in r for r in d['results'])"
run run -n 2 allreduce --sync each --min-efficiency 0.5
is_code 2
has_err 'no model knows what operations take that are waited for one by one'
run run -n 2 allreduce -b 4K -e 4K --iters 5 --transport net --json
is_code 0
json "'sockets' in d['results'][0]['expected']['limited_by'] or 'rank' in d['results'][0]['expected']['limited_by']"

case_is "rows say how long they warmed up; with -w 0 they did not"
run run -n 2 allreduce -b 8 -e 4K --iters 5 -w 3 --json
is_code 0
json "all(r['warmup'] >= 3 for r in d['results'])"
run run -n 2 allreduce -b 8 -e 4K --iters 5 -w 0 --json
is_code 0
json "all('warmup' not in r for r in d['results'])"

case_is "plan and run expect the same"
cores=$(nproc)
run run -n "$cores" allreduce -b 1M -e 1M --iters 1 --warmup 0 --json
is_code 0
ran=$(python3 -c "import json; e = json.load(open('$out'))['results'][0]['expected']; print('%.4g' % e['time_us'], e['limited_by'], e['source'], sep='; ')")
run plan --op allreduce --bytes 1M --json
is_code 0
if python3 -c "import json, sys; sys.exit(json.load(open('$out')).get('device') != 'cpu')"; then
  planned=$(python3 -c "import json; e = json.load(open('$out'))['choices'][0]['expected']; print('%.4g' % e['time_us'], e['limited_by'], e['source'], sep='; ')")
  [ "$cores" = 1 ] || [ "$ran" = "$planned" ] || fail "run: $ran, plan: $planned"
else
  say "skipped: what plan expects beside run (it plans for this machine's GPUs)"
fi

case_is "the column stands in the table of 100 characters, and where it does not fit in the footer"
COLUMNS=100 run "${reduce[@]}"
is_code 0
has_out "of exp."
has_out "# Expected             : "
awk 'length > 110 { exit 1 }' "$out" || fail "a line is longer than 110"
COLUMNS=70 run "${reduce[@]}"
grep -q 'Columns left out.*of exp\.' "$out" || fail "the footer does not name the column"
run "${reduce[@]}" --format nccl-tests
is_code 0
! grep -q 'exp\.' "$out" || fail "nccl-tests has no such column"

case_is "--min-efficiency: below it is 1, and says of what; above it 0"
run "${reduce[@]}" --min-efficiency 0.0001
is_code 0
run "${reduce[@]}" --min-efficiency 100@8
is_code 1
has_out "allreduce 8 B float32 sum"
has_out "below the minimum of 10000 %"
has_out "limited by"
run "${reduce[@]}" --min-efficiency 1@4K
is_code 2

case_is "thresholds of a file"
cat >"$work/good" <<'END'
# collective size statistic ranks bound source
allreduce 8 time * max 1e9 nobody's
allreduce 32K busbw 2 min 0 nobody's
END
run "${reduce[@]}" --thresholds "$work/good"
is_code 0
echo "allreduce 8 time 2 max 0.000001 our contract" >"$work/bad"
run "${reduce[@]}" --thresholds "$work/bad"
is_code 1
has_out "our contract"
echo "allreduce 1G time 2 max 1 us" >"$work/missing"
run "${reduce[@]}" --thresholds "$work/missing"
is_code 8
echo "allreduce 8 time two max 1 us" >"$work/wrong"
run "${reduce[@]}" --thresholds "$work/wrong"
is_code 2
has_err "wrong:1:18: expected a number of ranks"
mkfifo "$work/pipe"
run "${reduce[@]}" --thresholds "$work/pipe"
is_code 2
has_err "not a file"

case_is "a baseline is saved, grows, and is compared"
for _ in 1 2 3; do
  run "${reduce[@]}" --save-baseline "$work/baseline.json"
  is_code 0
done
python3 - "$work/baseline.json" <<'END' || fail "the baseline does not have three samples"
import json, sys
timings = json.load(open(sys.argv[1]))["machines"][0]["timings"]
assert timings and all(len(t["samples_us"]) == 3 for t in timings), timings
END
# So that what else this machine does decides nothing: samples far above, and far below.
scaled() {
  python3 - "$work/baseline.json" "$work/scaled.json" "$1" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
for t in d["machines"][0]["timings"]:
    t["samples_us"] = [s * float(sys.argv[3]) for s in t["samples_us"]]
json.dump(d, open(sys.argv[2], "w"))
END
}
scaled 1000
run "${reduce[@]}" --baseline "$work/scaled.json"
is_code 0
scaled 0.0001
run "${reduce[@]}" --baseline "$work/scaled.json"
is_code 1
has_out "above the"
has_out "of 3 runs in $work/scaled.json"
scaled 1000
run run -n 3 allreduce -b 8 -e 64K -f 64 --baseline "$work/scaled.json"
is_code 8
has_out "not compared"
run "${reduce[@]}" --baseline "$work/nothing.json"
is_code 2
echo '{"schema":"collctl.bench/1"}' >"$work/other.json"
run "${reduce[@]}" --save-baseline "$work/other.json"
is_code 2
[ "$(cat "$work/other.json")" = '{"schema":"collctl.bench/1"}' ] || fail "a file that is no baseline was written over"

case_is "what a host must have"
echo "gpus=8" >"$work/expect"
run doctor --expect "$work/expect"
is_code 1
has_out "gpus 0, 8 is expected"
echo "cpus=1 memory=1M" >"$work/expect"
run doctor --expect "$work/expect"
[ "$rc" != 2 ] && ! grep -q "FAIL expect" "$out" || fail "what is there fails"
echo "gpu=8" >"$work/expect"
run doctor --expect "$work/expect"
is_code 2
has_err "expect:1:1"

case_is "check holds its collectives against the same"
echo "gpus=8" >"$work/expect"
run check --level quick --only node --expect "$work/expect"
is_code 8
has_out "the suite doctor did not run"
run check --level quick --only node --min-efficiency 0.00001 --save-baseline "$work/check.json"
is_code 0
[ -s "$work/check.json" ] || fail "no baseline was saved"
COLUMNS=1000 run check --level quick --only node --min-efficiency 100
is_code 1
has_out "below the minimum of 10000 %"
run check --level quick --only inventory --min-efficiency 0.1
is_code 8
has_out "no collective was measured"

conclude
