# What the adopt_*.sh tests share: cases, and checks of the results that ranks of several hosts leave.
# To be sourced, after which `collctl` is the binary, `work` a folder seen on every host of the rig.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/ssh_rig.sh"
collctl=$(realpath "$1")
failures=0 case=

say() { printf '%s\n' "$*"; }
fail() {
  say "FAILED: $case: $*"
  local file
  for file in "$out" "$err"; do sed "s|^|    ${file##*/}: |" "$file" | cut -c1-400 | head -20; done
  failures=$((failures + 1))
}
. "$here/await.sh"
case_is() { case=$1; say "- $case"; : >"$out"; : >"$err"; rm -rf "$work"/code.* "$work"/pid.*; }
is_code() { [ "$rc" = "$1" ] || fail "exit code $rc, expected $1"; }
has_err() { grep -qF -- "$1" "$err" || fail "standard error lacks '$1'"; }
has_out() { grep -qF -- "$1" "$out" || fail "standard output lacks '$1'"; }
begin_work() {
  work=$rig/cases out=$rig/cases/out err=$rig/cases/err
  mkdir -p "$work"
  chmod 777 "$work"
  # One rank of a job: notes its host and pid, then the exit code; ends well itself, so that the engine lets the others end in
  # their own way. `idle`: one that idles between operations.
  local kind pace=
  for kind in rank idle; do
    [ $kind = rank ] || pace=COLLCTL_PACE_US=20000
    cat >"$work/$kind" <<RANK
#!/bin/sh
mark=\$(hostname).\$\$
# A job in the background of a shell like this one would ignore SIGINT.
sh -c 'echo \$\$ >"\$1"; shift; exec env --default-signal=INT $pace "\$@"' sh "$work/pid.\$mark" "$collctl" "\$@" &
wait \$!
echo \$? >"$work/code.\$mark"
RANK
    chmod 755 "$work/$kind"
  done
}
# N ranks have left exactly these codes.
codes_are() { # N CODE
  local codes
  codes=$(cat "$work"/code.* 2>/dev/null | sort | uniq -c | awk '{print $1 "x" $2}' | tr '\n' ' ')
  [ "$codes" = "$1x$2 " ] || fail "the ranks' exit codes are '$codes', expected $1x$2"
}
# The report is one JSON object of N ranks on H hosts; data was right; every link between two hosts is
# NET, and there is one.
good_report() { # N H
  [ "$(grep -c '"schema":"collctl.bench/1"' "$out")" = 1 ] || { fail "not exactly one report"; return; }
  has_out "\"ranks\":$1,"
  has_out '"ok":true'
  [ "$(grep -o '"wrong":[-0-9]*' "$out" | sort -u)" = '"wrong":0' ] || fail "data was wrong or not checked"
  grep -o '"host":"[^"]*","ranks":\[[0-9,]*\]' "$out" | tr -d '"[]' | sed 's/^host:\([^,]*\),ranks:/\1 /' >"$work/hosts"
  [ "$(wc -l <"$work/hosts")" = "$2" ] || fail "hosts are $(cat "$work/hosts"), expected $2"
  grep -o '"from":[0-9]*,"to":[0-9]*,"via":"[^"]*"' "$out" | sed 's/"//g; s/[a-z]*://; s/,to:/ /; s/,via:/ /' >"$work/links"
  awk 'NR == FNR { n = split($2, r, ","); for (i = 1; i <= n; ++i) host[r[i]] = $1; next }
       host[$1] != host[$2] { ++between; if ($3 !~ /^NET/) { print "link", $0; bad = 1 } }
       END { if (!between) print "no link between hosts"; exit bad || !between }' \
    "$work/hosts" "$work/links" >"$work/links.bad" || fail "$(cat "$work/links.bad")"
}
# The job that this starts, as it is when a rank of the second node is killed: all end, and that host is named.
killed_rank() { # COMMAND...
  : >"$out"
  "$@" "$work/idle" allreduce "${long[@]}" &
  job=$!
  await_ranks $job
  rig_node 2 kill -KILL "$(cat "$work"/pid.node02.* | head -1)"
  wait $job
  [ "$(cat "$work"/code.* | sort -n | tr '\n' ' ')" = "5 5 5 137 " ] || fail "codes are $(cat "$work"/code.* | tr '\n' ' ')"
  has_err "(host node02)"
  nothing_left
}
# No collctl is left on any node.
nothing_left() {
  local i left
  for ((i = 1; i <= rig_count; i++)); do
    await proc "${rig_pids[$i]}" '^[0-9]+ [0-9]+ . collctl' 0
  done
}
# Waits until the ranks measure: then all have noted their pid.
await_ranks() { await -of "$1" line "$out" busbw; }
long=(-b 1M -e 1M --iters 1000000 --check 0)
finish() { say "$failures failures"; [ "$failures" = 0 ]; exit; }
