#!/bin/bash
# What breaks, is ended or takes too long in jobs on other hosts: who is named, with which cause, who goes on, and what is
# left; with the real binary and real SSH servers, on hosts in namespaces (ssh_rig.sh). A case for each mechanism; the same
# in every order and at every moment is for tests/sim and tests/faults.
# Usage: remote_faults.sh PATH/collctl [CASE-PATTERN]. Exit 1 when one failed, 77 where hosts cannot be made.
# Of several deadlines the one that a case is about is short; its cause says that it was this one.
. "$(dirname "$(realpath "$0")")/remote_common.sh"
hostile=$(realpath tests/e2e/hostile_agent.py)
stage

# Packets from node $2 to node $3 vanish.
drop() { rig_node "$2" ip route "$1" blackhole "$(rig_address "$3")/32"; }
narrow() { nsenter -t "$rig_head_pid" -n tc qdisc add dev "v$1" root tbf rate "$2" burst 32k latency 400ms; }
wide() { nsenter -t "$rig_head_pid" -n tc qdisc del dev "v$1" root; }
# The sentence on top names these hosts, all of them and no other.
names_only() {
  local named
  named=$(grep -m1 'collctl: error' "$err" | sed 's/; rank.*wait.*//' | grep -oE 'node[0-9]{2}' | sort -u | tr '\n' ' ')
  [ "$named" = "$* " ] || fail "named: $named, expected: $*"
}
hostile_on() { rig_sshd_conf "$1" "ForceCommand exec $hostile $2"; }
await_state() { await proc 0 "^$launcher [0-9]+ $1 "; } # of the launcher
stand_still() { # for $1 s, and goes on
  kill -STOP "$launcher"
  sleep "$1" # time is what is tested: what others make of a launcher that does not run
  kill -CONT "$launcher"
}

if case_is "a rank crashes"; then
  begin run -H 'node[01-02]:2' "${long[@]}"
  await_running
  strike SEGV 2 "$rank" 1
  end
  is_code 5
  has_err SIGSEGV
  names_only node02
  nothing_left
fi

if case_is "what died is said: ssh here, an agent or sshd there"; then
  begin run --ssh-client openssh -H 'node[01-02]:1' "${long[@]}"
  await_running
  await proc 0 "^[0-9]+ $launcher . ssh .*node02" && kill -KILL "$found"
  end
  is_code 5
  has_err "the process 'ssh' of this machine"
  has_err "was killed by signal 9 (SIGKILL)"
  for client in libssh2 openssh; do
    begin run --ssh-client $client -H 'node[01-02]:2' "${long[@]}"
    await_running
    strike KILL 2 "$agent"
    end
    is_code 5
    names_only node02
    has_err "its agent was killed by"
    nothing_left
  done
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

if case_is "what was said before an agent was killed arrives, however late it is read"; then
  # The launcher has all of it when it has what was said after the agent has read all.
  cat >"$rig/say" <<'PY'
import fcntl, os, signal, struct, sys, termios, time
for i in range(1, 100001): print(i)
sys.stdout.flush()
while struct.unpack("i", fcntl.ioctl(1, termios.FIONREAD, bytes(4)))[0] > 0: time.sleep(0.01)
print("all is said", file=sys.stderr, flush=True)
time.sleep(777)
PY
  for client in libssh2 openssh; do
    rm -f "$rig/read"
    : >"$err"
    { rig_head timeout 180 "$collctl" run --ssh-client $client -H node01:1 -- python3 "$rig/say" 2>"$err"; echo $? >"$rig/code"; } |
      { "$await_program" file "$rig/read"; cat; } >"$out" &
    await line "$err" 'all is said' && strike KILL 1 "$agent"
    await quiet "${rig_pids[1]}"
    touch "$rig/read"
    wait $!
    has_err "host node01 was lost"
    [ "$(cat "$rig/code")" = 5 ] || fail "$client: exit code $(cat "$rig/code")"
    [ "$(md5sum <"$out")" = "$(seq 100000 | md5sum)" ] || fail "$client: $(wc -l <"$out") of 100000 lines"
  done
  nothing_left
fi

if case_is "the cable of a host is pulled: its heartbeat is missed"; then
  COLLCTL_HEARTBEAT_TIMEOUT=6 begin run -H 'node[01-03]:1' --op-timeout 600 "${long[@]}"
  await_running
  rig_link 3 down
  end
  is_code 5
  has_err "host node03 was lost"
  has_err "no heartbeat"
  rig_link 3 up
  nothing_left
fi

if case_is "the launcher is killed: its hosts are told by the end of the connection, or miss its heartbeat"; then
  for links in "" "1 2"; do
    COLLCTL_HEARTBEAT_TIMEOUT=5 begin run -H 'node[01-02]:2' -- sh -c 'setsid sleep 777 & sleep 777'
    await_program 4 1
    await_program 4 2
    for i in $links; do rig_link $i down; done
    kill -KILL "$launcher"
    end
    nothing_left
    for i in $links; do rig_link $i up; done
  done
fi

if case_is "Ctrl-C: of ranks, of a program that ignores it, while a host does not answer, at a question"; then
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
  rig_blackhole 2 on
  begin run -H 'node[01-02]:1' --connect-timeout 600 --start-timeout 600 -- sleep 777
  await_on 1 "$agent"
  kill -INT "$launcher"
  end
  is_code 130
  rig_blackhole 2 off
  nothing_left
  if ! command -v script >/dev/null; then
    say "skipped: Ctrl-C at a question for a password (script of bsdutils is not installed)"
  else
    for i in 1 2; do rig_sshd_conf $i "PubkeyAuthentication no" "PasswordAuthentication yes"; done
    mkfifo "$rig/keys"
    "${rig_on_head[@]}" timeout 240 script -qec "$collctl run --ssh-client libssh2 -H node01:1,node02:1 -- true" /dev/null \
      <"$rig/keys" >"$out" 2>"$err" &
    launcher=$!
    exec 8<>"$rig/keys"
    await -of "$launcher" line "$out" 'password: ' && printf '\003' >&8
    end
    exec 8>&-
    is_code 130
    for i in 1 2; do rig_sshd_reset $i; done
    nothing_left
  fi
fi

if case_is "deadlines: of the job, of a rank that stands still in an operation or between rows"; then
  rig_blackhole 2 on
  run run -H 'node[01-02]:1' --connect-timeout 600 --start-timeout 600 --timeout 20 -- sleep 777
  is_code 6
  has_err "node02: not up within 20 s (--timeout)"
  rig_blackhole 2 off
  nothing_left
  run run -H 'node[01-02]:1' --timeout 3 -- sleep 777
  is_code 6
  has_err "--timeout"
  for size in 0 64K; do
    begin run -H 'node[01-02]:1' --op-timeout 4 --start-timeout 600 --timeout 600 allreduce -b $size -e $size --iters 1000000 \
      --check 0 --sync each
    await_running
    strike STOP 2 "$rank"
    end
    is_code 6
    has_err "node02"
    has_err "stopped"
  done
  nothing_left
fi

if case_is "Ctrl-Z for longer than the heartbeat: of a program, of a collective"; then
  COLLCTL_HEARTBEAT_TIMEOUT=4 begin run --ssh-client libssh2 -H 'node[01-02]:1' -- \
    sh -c "echo 1; until [ -e $rig/go ]; do sleep 0.1; done; echo 3"
  await line "$out" 1 2
  kill -TSTP "$launcher"
  for i in 1 2; do await_on $i " T sh sh -c .*until"; done
  touch "$rig/go"
  sleep 9 # time is what is tested: longer than the heartbeat
  ! grep -q 3 "$out" || fail "the ranks ran on"
  kill -CONT "$launcher"
  end
  is_code 0
  [ "$(grep -c 3 "$out")" = 2 ] || fail "not all ranks went on"
  rm "$rig/go"
  COLLCTL_HEARTBEAT_TIMEOUT=4 COLLCTL_UNTIL=$rig/go begin run --ssh-client openssh -H 'node[01-02]:1' \
    allreduce -b 64K -e 64K --iters 10
  await_running
  kill -TSTP "$launcher"
  await_state T
  sleep 9 # time is what is tested: longer than the heartbeat
  kill -CONT "$launcher"
  await -of "$launcher" moves "$launcher" 2
  touch "$rig/go"
  end
  is_code 0
  rm "$rig/go"
  nothing_left
fi

if case_is "a way that is broken while ranks connect: both ends are named, and nobody who only waits"; then
  for way in "3 2" "4 1"; do
    set -- $way
    drop add "$1" "$2"
    run run -H 'node[01-04]:4' --start-timeout 16 allreduce -b 1K -e 1K
    [ "$rc" = 5 ] || is_code 6 # 5 where this host's own routes say no at once
    has_err "cannot connect to"
    has_err "collctl doctor"
    names_only $(printf 'node%02d\n' "$1" "$2" | sort)
    drop del "$1" "$2"
  done
  drop add 1 3
  run run -H 'node[01-03]:2' --start-timeout 16 allreduce -b 1K -e 1K
  is_code 6
  has_err "(host node03) cannot connect to rank 0 (host node01)"
  drop del 1 3
  nothing_left
  # However long hosts took to come up, the ranks' deadlines come before the launcher's.
  narrow 2 8mbit
  drop add 2 3
  run run -H 'node[01-03]:2' --stage always --start-timeout 40 allreduce -b 1K -e 1K
  [ "$rc" = 5 ] || is_code 6
  has_err "cannot connect to"
  wide 2
  drop del 2 3
  nothing_left
fi

if case_is "a way that breaks while ranks work: both ends are named, and nobody who only waits"; then
  # In an operation; and, where ranks do not pause, anywhere: a job of few iterations is mostly in the exchange after a row.
  for work in "2 3 20000 -b 64K --algo ring --iters 1000000 --check 0" "4 1 0 -b 8 --step-bytes 8 --iters 1 --warmup 0" \
    "2 3 20000 --split mod:2 -b 64K --algo ring --iters 1000000 --check 0"; do
    # shellcheck disable=SC2086
    set -- $work
    pace=$3 begin run -H 'node[01-04]:2' --op-timeout 5 --timeout 600 allreduce -e 64K "${@:4}"
    await_running
    drop add "$1" "$2"
    end
    is_code 6
    has_err "cannot reach rank"
    has_err "has acknowledged nothing for"
    has_err "collctl doctor"
    names_only $(printf 'node%02d\n' "$1" "$2" | sort)
    [[ $work != *--split* ]] || has_err ": group "
    drop del "$1" "$2"
  done
  nothing_left
fi

if case_is "a host is cut off while it or others are brought up: nothing stays there"; then
  narrow 2 1mbit
  begin run -H 'node[01-02]:1' --stage always --start-timeout 8 -- true
  await_on 2 'head -c'
  rig_link 2 down
  end
  is_code 4
  has_err "node02"
  nothing_left
  wide 2
  rig_link 2 up
  rig_blackhole 2 on
  COLLCTL_HEARTBEAT_TIMEOUT=4 begin run -H 'node[01-02]:1' --connect-timeout 600 --start-timeout 600 -- true
  await_on 1 "$agent"
  rig_link 1 down
  await quiet "${rig_pids[1]}" # without a first beat it waits for 15 s
  await_state '[^Z]'
  kill -INT "$launcher"
  end
  rig_link 1 up
  rig_blackhole 2 off
  nothing_left
fi

if case_is "a launcher that was stopped blames nobody"; then
  # While it connects: node 2's sshd does not answer before it goes on.
  sshd=$(rig_sshd_pid 2)
  rig_node 2 kill -STOP "$sshd"
  begin run --ssh-client libssh2 -H 'node[01-02]:1' --connect-timeout 5 -- true
  await_on 1 __agent
  kill -STOP "$launcher"
  sleep 8 # time is what is tested: longer than the connect timeout
  rig_node 2 kill -CONT "$sshd"
  kill -CONT "$launcher"
  end
  is_code 0
  # While it sends the binary: what is left of the start afterwards is what was left before.
  narrow 2 24mbit
  begin run -H 'node[01-02]:1' --stage always --start-timeout 20 -- true
  await_on 2 'head -c'
  stand_still 17
  end
  is_code 0
  wide 2
  # Longer than the hosts wait: then it says so itself.
  COLLCTL_HEARTBEAT_TIMEOUT=4 begin run -H 'node[01-02]:1' "${long[@]}"
  await_running
  stand_still 9
  end
  is_code 5
  has_err "collctl itself did not run for"
  lacks_err "was lost during the run"
  # And where the ranks came to their end meanwhile, and so before the hosts' patience was over, nothing is missing.
  COLLCTL_HEARTBEAT_TIMEOUT=4 begin run -H 'node[01-02]:1' -- sh -c "until [ -e $rig/over ]; do sleep 0.05; done; echo done"
  for i in 1 2; do await_on $i ' . sh sh -c until'; done
  kill -STOP "$launcher"
  touch "$rig/over"
  sleep 9 # time is what is tested: longer than the hosts wait
  kill -CONT "$launcher"
  end
  is_code 0
  [ "$(grep -c done "$out")" = 2 ] || fail "a rank's words are missing"
  nothing_left
fi

if case_is "guards that are stopped or killed cost nothing"; then
  for signal in STOP KILL; do
    begin run -H 'node[01-02]:1' "${long[@]}"
    await_running
    await proc 0 "^[0-9]+ $launcher . collctl-guard " && kill -$signal "$found"
    await -of "$launcher" moves "$launcher" 5
    kill -INT "$launcher"
    end
    is_code 130
    lacks_err guard
    await end "$found"
    nothing_left
  done
  COLLCTL_UNTIL=$rig/go begin run -H 'node[01-02]:1' allreduce -b 64K -e 64K --iters 10
  await_running
  strike STOP 1 "$guard"
  await -of "$launcher" moves "$launcher" 5
  touch "$rig/go"
  end
  is_code 0
  rm "$rig/go"
  nothing_left
fi

if case_is "an agent that is stopped while its ranks die: its host is named, and not those who lost them"; then
  for signal in KILL STOP; do
    begin run -H 'node[01-03]:2' --op-timeout 3 "${long[@]}"
    await_running
    strike STOP 2 "$agent"
    strike $signal 2 "$rank"
    end
    is_code 5
    names_only node02
    # Who is left of them comes to its own end, once it may.
    rig_node 2 sh -c 'kill -CONT $(ps -e -o pid=,args= | awk "/__agent|__rank/ && !/awk/ { print \$1 }")' 2>/dev/null
  done
  nothing_left
fi

if case_is "an agent of another make costs no more than its time"; then
  for mode in malformed frame rank; do
    hostile_on 2 $mode
    run run -H 'node[01-02]:1' --start-timeout 600 -- true
    is_code 4
    has_err node02
    rig_sshd_reset 2
  done
  # The time is up: who does not listen gets no grace, and who does no more than that.
  hostile_on 2 deaf
  run run -H 'node[01-02]:1' --timeout 5 --grace 600 -- sleep 777
  is_code 6
  hostile_on 2 stubborn
  for what in "-- sleep 777" "${long[*]}"; do
    # shellcheck disable=SC2086
    run run -H 'node[01-02]:1' --timeout 5 --grace 1 $what
    is_code 6
  done
  rig_sshd_reset 2
  hostile_on 2 silent
  for command in topo doctor; do
    run $command -H 'node[01-02]' --connect-timeout 600 --start-timeout 6
    [ "$rc" != 0 ] || fail "$command: exit code 0"
    grep -q "node02" "$out" "$err" || fail "$command does not name node02"
  done
  rig_sshd_reset 2
  nothing_left
fi

# --- those that are left go on, and end when they are told to: on one host this is local_shrink's
shrink() { # the lines of the launcher's options
  rm -f "$rig/go" "$rig/report.json"
  COLLCTL_UNTIL=$rig/go begin run --on-loss shrink --start-timeout 60 -o "$rig/report.json" "$@" allreduce -b 64K -e 256K --iters 10 \
    --warmup 1
  await_running
}
go_on() { # the lost ranks, and with which words; then the job comes to its end
  await -of "$launcher" line "$out" "^# lost: " && touch "$rig/go"
  end
  is_code 8
  has_out "Out of bounds values : 0 OK"
  has_out "# Verdict              : incomplete"
  [ "$(grep -c '^ *\(65536\|131072\|262144\) ' "$out")" = 3 ] || fail "not each size has one row"
  lost=$(grep -o '"lost":\[.*\],"verdict"\|"lost":.*' "$rig/report.json" | grep -o '"ranks":\[[0-9,]*\]' | grep -o '[0-9]*' | sort -n |
    tr '\n' ' ')
  [ "$lost" = "$1 " ] || fail "lost are '$lost', expected '$1'"
}

if case_is "going on without ranks: of rank 0's host, of an agent that was killed, of hosts that are cut off"; then
  shrink -H 'node[01-03]:2'
  strike KILL 1 "$rank"
  go_on "0 1"
  has_out "4 ranks go on"
  nothing_left
  shrink -H 'node[01-03]:2'
  strike KILL 3 "$agent"
  go_on "4 5"
  has_out "host node03 was lost during the run"
  nothing_left
  # The operation's time is over before the heartbeat's, and rank 0 is lost.
  COLLCTL_HEARTBEAT_TIMEOUT=20 shrink -H 'node[01-03]:2' --op-timeout 4
  rig_link 1 down
  go_on "0 1"
  rig_link 1 up
  nothing_left
  # Two hosts at once.
  COLLCTL_HEARTBEAT_TIMEOUT=5 shrink -H 'node[01-04]:1' --op-timeout 60
  rig_link 3 down
  strike KILL 2 "$rank"
  go_on "1 2"
  rig_link 3 up
  nothing_left
fi

if case_is "going on: when the way between two hosts that live is cut, whom to leave out would be a guess"; then
  COLLCTL_HEARTBEAT_TIMEOUT=20 shrink -H 'node[01-03]:2' --op-timeout 4
  drop add 2 3
  end
  drop del 2 3
  [ "$rc" = 5 ] || is_code 6
  ! grep -q '"lost":' "$rig/report.json" || fail "somebody is lost"
  has_err node02
  has_err node03
  nothing_left
fi

[ $failures = 0 ] || { say "$failures failures"; exit 1; }
say "all passed"
