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

if case_is "a rank of one host's group crashes"; then
  begin run -H 'node[01-02]:2' "${long[@]}" --split host
  await_running
  strike SEGV 2 "$rank" 1
  end
  is_code 5
  has_err SIGSEGV
  has_err "(pid $found, host node02)"
  has_err "group 1 (ranks 2-3)"
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
  begin run --ssh-client libssh2 -H 'node[01-02]:2' "${long[@]}"
  await_running
  strike KILL 2 "$agent"
  end
  is_code 5
  names_only node02
  has_err "its agent was killed by"
  nothing_left
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

if case_is "the launcher is killed: one host is told by the end of the connection, one that is cut off misses its heartbeat"; then
  COLLCTL_HEARTBEAT_TIMEOUT=5 begin run -H 'node[01-02]:2' -- sh -c 'setsid sleep 777 & sleep 777'
  await_program 4 1
  await_program 4 2
  rig_link 2 down
  kill -KILL "$launcher"
  end
  nothing_left
  rig_link 2 up
fi

if case_is "Ctrl-C: of a program that ignores it, at a question"; then
  begin run -H 'node[01-02]:2' --grace 1 -- sh -c 'trap "" TERM; sleep 777'
  await_program 2 2
  kill -INT "$launcher"
  end
  is_code 130
  nothing_left
  for i in 1 2; do rig_sshd_conf $i "PubkeyAuthentication no" "PasswordAuthentication yes"; done
  mkfifo "$rig/keys"
  : >"$out"
  "${rig_on_head[@]}" timeout 240 python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' \
    "$collctl" run --ssh-client libssh2 -H node01:1,node02:1 -- true <"$rig/keys" >"$out" 2>"$err" &
  launcher=$!
  exec 8<>"$rig/keys"
  await -of "$launcher" line "$out" 'password: ' && printf '\003' >&8
  end
  exec 8>&-
  is_code 130
  for i in 1 2; do rig_sshd_reset $i; done
  nothing_left
fi

if case_is "a rank that stands still between rows"; then
  # The local one stands still in an operation (local_jobs).
  begin run -H 'node[01-02]:1' --op-timeout 4 --start-timeout 600 --timeout 600 allreduce -b 0 -e 0 --iters 1000000 --check 0 --sync each
  await_running
  strike STOP 2 "$rank"
  end
  is_code 6
  has_err "node02"
  has_err "stopped"
  nothing_left
fi

if case_is "Ctrl-Z: ranks stop with it, and go on"; then
  begin run --ssh-client openssh -H 'node[01-02]:1' -- \
    sh -c "echo 1; until [ -e $rig/go ]; do sleep 0.1; done; echo 3"
  await line "$out" 1 2
  kill -TSTP "$launcher"
  for i in 1 2; do await_on $i " T sh sh -c .*until"; done
  await proc 0 "^$launcher [0-9]+ T"
  touch "$rig/go"
  kill -CONT "$launcher"
  end
  is_code 0
  [ "$(grep -c 3 "$out")" = 2 ] || fail "not all ranks went on"
  rm "$rig/go"
  begin run -H 'node[01-02]:1' --op-timeout 600 --timeout 600 "${long[@]}"
  await_running
  kill -TSTP "$launcher"
  for i in 1 2; do await_on $i "${rank/\[^Z\]/T}"; done
  await proc 0 "^$launcher [0-9]+ T"
  kill -CONT "$launcher"
  await -of "$launcher" moves "$launcher" 1
  kill -INT "$launcher"
  end
  is_code 130
  nothing_left
fi

if case_is "a way that breaks while ranks work: both ends are named, and nobody who only waits"; then
  # In an operation; and, where ranks do not pause, anywhere: a job of few iterations is mostly in the exchange after a row.
  for work in "4 1 0 -b 8 --step-bytes 8 --iters 1 --warmup 0" \
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

if case_is "a host is cut off while it is sent the binary: nothing stays there"; then
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
  nothing_left
fi

if case_is "a launcher that was stopped blames nobody"; then
  # Longer than the hosts wait: then it says so itself.
  COLLCTL_HEARTBEAT_TIMEOUT=4 begin run -H 'node[01-02]:1' "${long[@]}"
  await_running
  kill -STOP "$launcher"
  sleep 9 # time is what is tested: longer than the hosts wait
  kill -CONT "$launcher"
  end
  is_code 5
  has_err "collctl itself did not run for"
  lacks_err "was lost during the run"
  nothing_left
fi

if case_is "guards that are stopped or killed cost nothing"; then
  begin run -H 'node[01-02]:1' "${long[@]}"
  await_running
  await proc 0 "^[0-9]+ $launcher . collctl-guard " && kill -KILL "$found"
  ended=$found
  strike STOP 1 "$guard"
  await -of "$launcher" moves "$launcher" 5
  kill -INT "$launcher"
  end
  is_code 130
  lacks_err guard
  await end "$ended"
  nothing_left
fi

if case_is "an agent that is stopped while its ranks die: its host is named, and not those who lost them"; then
  begin run -H 'node[01-03]:2' --op-timeout 3 "${long[@]}"
  await_running
  strike STOP 2 "$agent"
  stopped=$found
  strike KILL 2 "$rank"
  end
  is_code 5
  names_only node02
  rig_node 2 kill -CONT "$stopped" 2>/dev/null # unless its guard has ended it
  nothing_left
fi

if case_is "an agent of another make costs no more than its time"; then
  for mode in malformed rank; do
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
  run run -H 'node[01-02]:1' --timeout 5 --grace 1 "${long[@]}"
  is_code 6
  rig_sshd_reset 2
  hostile_on 2 silent
  run doctor -H 'node[01-02]' --connect-timeout 600 --start-timeout 6
  [ "$rc" != 0 ] || fail "exit code 0"
  grep -q "node02" "$out" "$err" || fail "node02 is not named"
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
  has_out "# Verdict              : passed, but not everything"
  [ "$(grep -c '^ *\(65536\|131072\|262144\) ' "$out")" = 3 ] || fail "not each size has one row"
  lost=$(grep -o '"lost":\[.*\],"verdict"\|"lost":.*' "$rig/report.json" | grep -o '"ranks":\[[0-9,]*\]' | grep -o '[0-9]*' | sort -n |
    tr '\n' ' ')
  [ "$lost" = "$1 " ] || fail "lost are '$lost', expected '$1'"
}

if case_is "going on without two hosts at once: rank 0's, and one that is cut off"; then
  COLLCTL_HEARTBEAT_TIMEOUT=5 shrink -H 'node01:2,node[02-03]:1,node04:2' --op-timeout 60
  rig_link 3 down
  strike KILL 1 "$rank"
  go_on "0 1 3"
  has_out "no heartbeat"
  rig_link 3 up
  nothing_left
fi

[ $failures = 0 ] || { say "$failures failures"; exit 1; }
say "all passed"
