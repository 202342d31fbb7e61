#!/bin/bash
# Jobs on other hosts with the real binary and real SSH servers, on hosts in namespaces (ssh_rig.sh).
# Usage: remote_jobs.sh PATH/collctl [CASE-PATTERN]. Every case says what it expected; after each one nothing of a
# job may be left on any host. Exit 1 when one failed, 77 where hosts cannot be made.
set -u
collctl=$(realpath "$1")
only=${2:-}
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/ssh_rig.sh
nodes=5
rig_up $nodes
failures=0
out=$rig/out err=$rig/err
: >"$out" >"$err"

say() { printf '%s\n' "$*"; }
fail() {
  say "FAILED: $case: $*"
  sed 's/^/    out: /' "$out" | cut -c1-300 | head -20
  sed 's/^/    err: /' "$err" | cut -c1-600 | head -30
  failures=$((failures + 1))
}
run() { rig_head timeout -k 5 240 "$collctl" "$@" >"$out" 2>"$err" </dev/null; rc=$?; }
is_code() { [ "$rc" = "$1" ] || fail "exit code $rc, expected $1"; }
has_err() { grep -qF -- "$1" "$err" || fail "standard error lacks '$1'"; }
has_out() { grep -qF -- "$1" "$out" || fail "standard output lacks '$1'"; }
lacks_err() { ! grep -qF -- "$1" "$err" || fail "standard error has '$1'"; }
is_out() { [ "$(cat "$out")" = "$1" ] || fail "standard output is not '$1'"; }
# In the background; $launcher is its pid.
begin() { "${rig_on_head[@]}" env --default-signal=INT "$collctl" "$@" >"$out" 2>"$err" </dev/null & launcher=$!; }
end() { wait "$launcher"; rc=$?; }
seconds() { awk "BEGIN { print int(($(date +%s%N) - $started) / 1e8) / 10 }"; }
within() { awk "BEGIN { exit !($(seconds) < $1) }" || fail "took $(seconds) s, expected less than $1"; }
# Nothing of the job is left on the hosts: no process, no file in /dev/shm, no half-sent binary.
nothing_left() {
  local i left
  for i in $(seq $nodes); do
    left=$(rig_leftover "$i" 300)
    [ -z "$left" ] || fail "on node $i there is still: $left"
    left=$(rig_node "$i" sh -c 'ls -A /dev/shm; find "$HOME/.cache" -name ".collctl*" 2>/dev/null')
    [ -z "$left" ] || fail "on node $i there are still files: $left"
  done
}
ranks_on() { rig_processes "$1" | grep -c __rank; }
await_running() { # until the titles of the table are out: the ranks measure
  for _ in $(seq 1200); do
    grep -q '(us)' "$out" && sleep 0.3 && return
    kill -0 "$launcher" 2>/dev/null || break
    sleep 0.05
  done
  fail "the job does not run"
}
await_program() { # until $1 processes of `sleep 777` run on node $2
  for _ in $(seq 900); do
    [ "$(rig_processes "$2" | grep -cE '[0-9] sleep 777$')" = "$1" ] && return
    sleep 0.05
  done
  fail "the program does not run on node $2"
}
await_stopped() { # until what matches $1 is stopped on node $2
  for _ in $(seq 900); do
    rig_node "$2" ps -e -o stat=,args= | grep -q "^T.* sh -c .*$1" && return
    sleep 0.05
  done
  fail "nothing is stopped on node $2"
}
await_question() {
  for _ in $(seq 1800); do grep -q 'password: ' "$out" && break; sleep 0.05; done
}
case_is() {
  case=$1
  [ -z "$only" ] || [[ $case == *$only* ]] || return 1
  say "- $case"
  started=$(date +%s%N)
}
long=(allreduce -b 64K -e 64K --iters 1000000 --check 0 --sync each)

if case_is "16 ranks on 4 hosts, binary staged"; then
  run run -H 'node[01-04]:4' -n 16 allreduce -b 4 -e 256K -f 16 --json
  is_code 0
  python3 - "$out" <<'PY' || fail "the report is not as expected"
import json, sys
report = json.load(open(sys.argv[1]))
host = {}
for line in report["hosts"]:
    for rank in line["ranks"]: host[rank] = line["host"]
assert len(host) == 16 and len(set(host.values())) == 4, host
assert report["links"], "no links"
for link in report["links"]:
    across = host[link["from"]] != host[link["to"]]
    assert link["via"].startswith("NET") == across, link
assert any(host[l["from"]] != host[l["to"]] for l in report["links"])
assert all(r[p]["wrong"] == 0 for r in report["results"] for p in ("out_of_place", "in_place"))
assert [h["staged"] for h in report["launch"]["hosts"]] == [True] * 4, report["launch"]
PY
  nothing_left
fi

if case_is "the binary is not sent twice"; then
  run run -H 'node[01-04]:4' -n 16 allreduce -b 4 -e 4 --json
  is_code 0
  has_out '"staged":false'
  ! grep -q '"staged":true' "$out" || fail "sent again"
fi

if case_is "every collective on 3 hosts, uneven slots"; then
  for op in allreduce allgather reducescatter broadcast reduce gather scatter alltoall sendrecv barrier; do
    run run -H 'node01:1,node02:3,node03:1' "$op" -b 8 -e 64K -f 64 --json
    is_code 0
    has_out '"ok":true'
  done
  nothing_left
fi

if case_is "a program: place, folder, output, exit code of the first failing rank"; then
  run run -H 'node01:2,node02:2' -- sh -c 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $(hostname)"'
  is_code 0
  [ "$(sort "$out")" = "0 4 0 2 0 node01
1 4 1 2 0 node01
2 4 0 2 1 node02
3 4 1 2 1 node02" ] || fail "wrong places"
  run run -H 'node01:2,node02:2' -- sh -c '[ $RANK != 3 ] || { echo "it is broken" >&2; exit 42; }; sleep 777'
  is_code 42
  has_err "rank 3"
  has_err "node02"
  has_err "it is broken"
  run run -H 'node01:2,node02:2' -o "$rig/report.json" -- sh -c 'exit $RANK'
  python3 - "$rig/report.json" "$rc" <<'PY' || fail "the report does not name who failed"
import json, sys
reason = json.load(open(sys.argv[1]))["verdict"]["reasons"][0]
assert reason["rank"] == int(sys.argv[2]) and reason["host"] == ["node01", "node02"][reason["rank"] // 2], reason
PY
  run run -H 'node01,node02' -- sh -c '[ $RANK != 1 ] || kill -SEGV $$; sleep 777'
  is_code 139
  run run -H 'node01,node02' -- no-such-program
  is_code 4
  has_err "no-such-program"
  has_err "2 hosts could not start their ranks"
  has_err "host node01: start rank 0 of 2"
  has_err "host node02: start rank 1 of 2"
  nothing_left
fi

if case_is "environment goes along by name and pattern, secrets do not"; then
  COLLCTL_TOKEN=hush FOO_A=1 FOO_B=2 BAR=3 run run -H node01 -x 'FOO_*' -x BAZ=a=b -- sh -c 'env; tr "\0" " " </proc/$PPID/cmdline'
  is_code 0
  has_out FOO_A=1
  has_out FOO_B=2
  has_out BAZ=a=b
  for word in BAR= hush; do ! grep -q "$word" "$out" || fail "'$word' has come along"; done
fi

if case_is "standard input to rank 0 and to all"; then
  head -c 3000000 /dev/urandom | base64 >"$rig/input"
  rig_head timeout 240 "$collctl" run -H 'node01,node02' --stdin 0 -- md5sum <"$rig/input" >"$out" 2>"$err"; rc=$?
  is_code 0
  has_out "$(md5sum <"$rig/input" | cut -d' ' -f1)"
  rig_head timeout 240 "$collctl" run -H 'node01,node02' --stdin all --gather -- md5sum <"$rig/input" >"$out" 2>"$err"; rc=$?
  is_code 0
  [ "$(grep -c "$(md5sum <"$rig/input" | cut -d' ' -f1)" "$out")" = 1 ] || fail "not gathered"
fi

if case_is "much output, whole lines, tagged"; then
  run run -H 'node01:2,node02:2' --tag-output -- sh -c 'i=0; while [ $i -lt 20000 ]; do echo "line $i of $RANK"; i=$((i+1)); done'
  is_code 0
  [ "$(wc -l <"$out")" = 80000 ] || fail "$(wc -l <"$out") lines"
  [ "$(grep -cE '^\[[0-3]\] line [0-9]+ of [0-3]$' "$out")" = 80000 ] || fail "broken lines"
fi

if case_is "a reader that sleeps longer than the heartbeat holds the ranks back, no more"; then
  COLLCTL_HEARTBEAT_TIMEOUT=6 rig_head timeout 240 bash -c '"$1" run -H node01,node02 -- sh -c "yes \$RANK-\$(hostname)-0123456789012345678901234567890123456789 | head -c 30000000" 2>"$2" | (sleep 13; sort | uniq -c) >"$3"; exit ${PIPESTATUS[0]}' - "$collctl" "$err" "$out"; rc=$?
  is_code 0
  [ "$(grep -c '^ *[0-9]' "$out")" -le 4 ] || fail "lines were broken"
  [ "$(awk '{ n += $1 * (length($2) + 1) } END { print n }' "$out")" -ge 59999900 ] || fail "output is missing"
  nothing_left
fi

if case_is "all bad hosts in one report, each with its cause"; then
  ssh-keygen -q -t ed25519 -N '' -f "$rig/other_key"
  cp "$rig/head/home/.ssh/known_hosts" "$rig/known_hosts.kept"
  grep -v '^node03' "$rig/known_hosts.kept" | sed "s|^\(node04[^ ]*\) .*|\1 $(cut -d' ' -f1,2 "$rig/other_key.pub")|" \
    >"$rig/head/home/.ssh/known_hosts"
  rig_sshd_stop 2
  mv "$rig/node05/home/.ssh/authorized_keys" "$rig/authorized_keys.kept"
  run run -H 'node[01-05],no-such-host' --connect-timeout 60 -- true
  is_code 4
  has_err "5 of 6 hosts failed"
  for word in "node02: " "node03: " "node04: " "node05: " "no-such-host: " refused "does not resolve"; do has_err "$word"; done
  lacks_err "node01: "
  grep -E '^ *node03: ' "$err" | grep -qiE 'unknown|known_hosts' || fail "node03: an unknown host is not named so"
  grep -E '^ *node04: ' "$err" | grep -qiE 'chang' || fail "node04: a changed key is not named so"
  grep -E '^ *node05: ' "$err" | grep -qiE 'auth|key|permission' || fail "node05: refused authentication is not named so"
  within 50  # not the minute of the connect timeout
  run run -H 'node[01-05]' --allow-missing 4 -- hostname
  is_code 8
  is_out node01
  has_err node05
  run run -H 'node[01-03]' --allow-missing 1 -- hostname
  is_code 4
  run run -H 'node[01-02]:2' --allow-missing 1 allreduce -b 8 -e 8 --json
  is_code 8
  has_out '"host-left-out"'
  mv "$rig/authorized_keys.kept" "$rig/node05/home/.ssh/authorized_keys"
  cp "$rig/known_hosts.kept" "$rig/head/home/.ssh/known_hosts"
  rig_sshd_start 2
  nothing_left
fi

if case_is "no route, and accepts but stays silent: within the connect timeout"; then
  rig_link 2 down
  rig_sshd_stop 3
  rig_node 3 python3 -c 'import socket,time
s=socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("",22)); s.listen(); time.sleep(200)' &
  silent=$!
  for _ in $(seq 900); do
    rig_node 3 ss -ltnH 'sport = :22' | grep -q LISTEN && break
    sleep 0.05
  done
  run run -H 'node[01-03]' --connect-timeout 8 -- true
  is_code 4
  has_err "2 of 3 hosts failed"
  grep -E '^ *node02: ' "$err" | grep -qiE 'route|timeout|timed|answer|within' || fail "node02: no cause"
  grep -E '^ *node03: ' "$err" | grep -qiE 'banner|silent|answer|within|timed' || fail "node03: no cause"
  within 40
  rig_node 3 sh -c 'kill $(ps -e -o pid=,args= | awk "/SO_REUSEADDR/ && !/awk/ { print \$1; exit }")'
  wait $silent 2>/dev/null
  rig_link 2 up
  rig_sshd_start 3
  sleep 0.3
  nothing_left
fi

if case_is "a rank crashes"; then
  begin run -H 'node[01-02]:2' "${long[@]}"
  await_running
  victim=$(rig_processes 2 | awk '/__rank/ { print $1; exit }')
  rig_node 2 kill -SEGV "$victim"
  end
  is_code 5
  has_err SIGSEGV
  has_err node02
  nothing_left
fi

if case_is "an agent is killed: its ranks go with it"; then
  begin run -H 'node[01-02]:2' "${long[@]}"
  await_running
  rig_node 2 sh -c 'kill -KILL $(ps -e -o pid=,args= | awk "/__agent/ && !/awk/ && !/sh -c/ { print \$1; exit }")'
  end
  is_code 5
  has_err "node02"
  nothing_left
fi

if case_is "what was said before an agent was killed arrives, however late it is read"; then
  for client in libssh2 openssh; do
    rig_head timeout 180 "$collctl" run --ssh-client $client -H node01 -- \
      sh -c 'seq 100000; sleep 4; kill -KILL $PPID; sleep 777' 2>"$err" | { sleep 7; cat; } >"$out"
    [ "$(md5sum <"$out")" = "$(seq 100000 | md5sum)" ] || fail "$client: $(wc -l <"$out") of 100000 lines"
    has_err "host node01 was lost"
  done
  nothing_left
fi

if case_is "sshd killed during the run"; then
  begin run -H 'node[01-02]:2' "${long[@]}"
  await_running
  rig_sshd_kill 2
  end
  is_code 5
  has_err "host node02 was lost"
  has_err "ranks 2-3"
  rig_sshd_start 2
  nothing_left
fi

if case_is "a link is taken down during the run"; then
  COLLCTL_HEARTBEAT_TIMEOUT=6 begin run -H 'node[01-03]' "${long[@]}"
  await_running
  rig_link 3 down
  end
  is_code 5
  has_err "host node03 was lost"
  has_err "no sign of life"
  within 60
  rig_link 3 up
  nothing_left
fi

if case_is "the launcher is killed"; then
  begin run -H 'node[01-02]:2' -- sh -c 'setsid sleep 777 & sleep 777'
  await_program 4 1
  await_program 4 2
  kill -KILL "$launcher"
  end
  nothing_left
fi

if case_is "the launcher is killed and its host cut off: the guards miss its heartbeat"; then
  COLLCTL_HEARTBEAT_TIMEOUT=5 begin run -H 'node[01-02]:2' -- sh -c 'setsid sleep 777 & sleep 777'
  await_program 4 1
  await_program 4 2
  for i in 1 2; do rig_link $i down; done
  kill -KILL "$launcher"
  end
  nothing_left
  for i in 1 2; do rig_link $i up; done
fi

if case_is "Ctrl-C"; then
  begin run -H 'node[01-02]:2' "${long[@]}"
  await_running
  kill -INT "$launcher"
  end
  is_code 130
  nothing_left
  begin run -H 'node[01-02]:2' --grace 1 -- sh -c 'trap "" TERM; sleep 777'
  await_program 2 2
  kill -INT "$launcher"
  end
  is_code 130
  nothing_left
fi

if case_is "the time of the whole job passes while hosts are awaited"; then
  rig_blackhole 2 on
  run run -H 'node[01-02]' --connect-timeout 60 --timeout 2 -- sleep 777
  is_code 6
  has_err "host node02: not up within 2 s (--timeout)"
  within 40
  rig_blackhole 2 off
  nothing_left
fi

if case_is "Ctrl-Z for longer than the heartbeat"; then
  for client in libssh2 openssh; do
    COLLCTL_HEARTBEAT_TIMEOUT=4 begin run --ssh-client $client -H 'node[01-02]' -- \
      sh -c "echo 1; until [ -e $rig/go ]; do sleep 0.1; done; echo 3"
    for _ in $(seq 600); do [ "$(grep -c 1 "$out")" = 2 ] && break; sleep 0.1; done
    kill -TSTP "$launcher"
    for i in 1 2; do await_stopped "until .* $rig/go" $i; done
    touch "$rig/go"
    sleep 9
    ! grep -q 3 "$out" || fail "$client: the ranks ran on"
    kill -CONT "$launcher"
    end
    is_code 0
    [ "$(grep -c 3 "$out")" = 2 ] || fail "$client: not all ranks went on"
    rm "$rig/go"
  done
  nothing_left
fi

if case_is "Ctrl-C while a host does not answer"; then
  rig_blackhole 2 on
  begin run -H 'node[01-02]' --connect-timeout 60 -- sleep 777
  sleep 2
  kill -INT "$launcher"
  end
  is_code 130
  within 40
  rig_blackhole 2 off
  nothing_left
fi

if case_is "Ctrl-C at a question for a password"; then
  if ! command -v script >/dev/null; then
    say "  not tested: script (bsdutils) is not installed"
  else
    for i in 1 2; do rig_sshd_conf $i "PubkeyAuthentication no" "PasswordAuthentication yes"; done
    : >"$out"
    { await_question; printf '\003'; sleep 3; } | "${rig_on_head[@]}" timeout 180 \
      script -qec "$collctl run --ssh-client libssh2 -H node01,node02 -- true" /dev/null >"$out" 2>"$err"; rc=$?
    is_code 130
    has_out "password: "
    within 120
    for i in 1 2; do rig_sshd_reset $i; done
    nothing_left
  fi
fi

if case_is "deadlines: of the job, of a hung rank"; then
  run run -H 'node[01-02]' --timeout 1 -- sleep 777
  is_code 6
  has_err "--timeout"
  begin run -H 'node[01-02]' --op-timeout 5 "${long[@]}"
  await_running
  rig_node 2 sh -c 'kill -STOP $(ps -e -o pid=,args= | awk "/__rank/ && !/awk/ { print \$1; exit }")'
  end
  is_code 6
  has_err "node02"
  has_err "stopped"
  nothing_left
fi

if case_is "a full disk, a read-only one, noexec: told before anything runs"; then
  for i in 1 2 3; do rig_node $i rm -rf "$rig_home/.cache"; rig_node $i mkdir -p "$rig_home/.cache"; done
  rig_node 1 mount -t tmpfs -o size=1m none "$rig_home/.cache"
  rig_node 2 mount -t tmpfs -o noexec none "$rig_home/.cache"
  rig_node 3 mount -t tmpfs -o ro none "$rig_home/.cache"
  run run -H 'node[01-04]' -- true
  is_code 4
  has_err "3 of 4 hosts failed"
  grep -E '^ *node01: ' "$err" | grep -q 'No space left' || fail "node01: a full disk is not named so"
  grep -E '^ *node02: ' "$err" | grep -q 'noexec' || fail "node02: noexec is not named so"
  grep -E '^ *node03: ' "$err" | grep -q 'Read-only' || fail "node03: a read-only file system is not named so"
  nothing_left
  run run -H 'node[01-03]' --remote-path "$rig_home/bin/collctl" -- hostname
  is_code 0
  for i in 1 2 3; do rig_node $i umount "$rig_home/.cache"; done
  run run -H node01 --stage never -- true
  is_code 4
  has_err "there is no collctl at"
fi

if case_is "a jump host, IPv6, another port, a user"; then
  rig_blackhole 2 on
  run run -H node02 --connect-timeout 2 -- true
  is_code 4
  printf 'node02 jump=node01 slots=2\n' >"$rig/hosts"
  run run --hostfile "$rig/hosts" -- hostname
  is_code 0
  is_out "node02
node02"
  rig_blackhole 2 off
  run run -H "[$(rig_address6 3)]" -- hostname
  is_code 0
  is_out node03
  rig_sshd_conf 4 'Port 2222'
  sed -n 's/^node04,[^ ]* /[node04]:2222 /p' "$rig/head/home/.ssh/known_hosts" >>"$rig/head/home/.ssh/known_hosts"
  printf 'tester@node04 port=2222 path=~/of-tester/collctl\n' >"$rig/hosts"
  run run --hostfile "$rig/hosts" -- id -un
  is_code 0
  is_out tester
  rig_sshd_reset 4
  nothing_left
fi

if case_is "a server with gcm ciphers only, one with an RSA host key only"; then
  rig_sshd_conf 1 'Ciphers aes256-gcm@openssh.com'
  ssh-keygen -q -t rsa -b 2048 -N '' -f "$rig/node02/rsa_key"
  cp "$rig/node02/sshd_config" "$rig/node02/sshd_config.kept"
  sed -i "s|^HostKey .*|HostKey $rig/node02/rsa_key|" "$rig/node02/sshd_config"
  rig_sshd_stop 2; rig_sshd_start 2
  echo "node02 $(cut -d' ' -f1,2 "$rig/node02/rsa_key.pub")" >"$rig/known"
  grep -v '^node02' "$rig/head/home/.ssh/known_hosts" >>"$rig/known"
  cp "$rig/head/home/.ssh/known_hosts" "$rig/known_hosts.kept"
  cp "$rig/known" "$rig/head/home/.ssh/known_hosts"
  run run -H 'node[01-02]' -- hostname
  is_code 0
  cp "$rig/known_hosts.kept" "$rig/head/home/.ssh/known_hosts"
  cp "$rig/node02/sshd_config.kept" "$rig/node02/sshd_config"
  rig_sshd_reset 1
  rig_sshd_reset 2
  nothing_left
fi

if case_is "a shell that talks, and one that refuses"; then
  echo 'echo "welcome to this machine"; echo "and to its errors" >&2' >"$rig/node01/home/.bashrc"
  run run -H node01 -- hostname
  is_code 0
  is_out node01
  rm "$rig/node01/home/.bashrc"
  echo 'echo "this account is closed"; exit 3' >"$rig/node01/home/.bashrc"
  run run -H 'node[01-02]' -- hostname
  is_code 4
  has_err "this account is closed"
  rm "$rig/node01/home/.bashrc"
  nothing_left
fi

[ $failures = 0 ] || { say "$failures failures"; exit 1; }
say "all passed"
