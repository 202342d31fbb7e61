#!/bin/bash
# Who is named when hosts, ways between them, the launcher itself or an agent misbehave, how soon, and what is left on the
# hosts; with the real binary and real SSH servers, on hosts in namespaces (ssh_rig.sh).
# Usage: remote_culprits.sh PATH/collctl [CASE-PATTERN]. Exit 1 when one failed, 77 where hosts cannot be made.
. "$(dirname "$(realpath "$0")")/remote_common.sh"
hostile=$(realpath tests/e2e/hostile_agent.py)
stage

# Packets from node $2 to node $3 vanish.
drop() { rig_node "$2" ip route "$1" blackhole "$(rig_address "$3")/32"; }
first_line() { grep -m1 'collctl: error' "$err"; }
# The sentence on top names these hosts, all of them and no other.
names_only() {
  local found
  found=$(first_line | sed 's/; rank.*wait.*//' | grep -oE 'node[0-9]{2}' | sort -u | tr '\n' ' ')
  [ "$found" = "$* " ] || fail "named: $found, expected: $*"
}
await_processes() { # until a process like $2 runs on node $1
  for _ in $(seq 400); do
    rig_processes "$1" | grep -qE -- "$2" && return
    sleep 0.05
  done
  fail "nothing like $2 runs on node $1"
}
hostile_on() { rig_sshd_conf "$1" "ForceCommand exec $hostile $2"; }

if case_is "a way that is broken while ranks connect: both ends are named, and nobody who only waits"; then
  for way in "3 2" "2 3" "4 1"; do
    set -- $way
    drop add "$1" "$2"
    started=$(date +%s%N)
    run run -H 'node[01-04]:4' --start-timeout 16 allreduce -b 1K -e 1K
    [ "$rc" = 5 ] || is_code 6 # 5 where this host's own routes say no at once
    has_err "cannot connect to"
    has_err "collctl doctor"
    names_only $(printf 'node%02d\n' "$1" "$2" | sort)
    within 30
    drop del "$1" "$2"
  done
  nothing_left
fi

if case_is "a way that breaks in groups over hosts: both ends are named, and the group"; then
  begin run -H 'node[01-04]:2' --op-timeout 5 allreduce --split mod:2 -b 64K -e 64K --algo ring --iters 1000000 --check 0
  await_running
  drop add 2 3
  started=$(date +%s%N)
  end
  is_code 6
  has_err "cannot reach rank"
  has_err ": group "
  names_only node02 node03
  within 12
  drop del 2 3
  nothing_left
fi

# In an operation, and in the exchange after a row, where a job of few iterations mostly is.
if case_is "a way that breaks while ranks work: both ends are named, and nobody who only waits"; then
  for way in "2 3" "4 1"; do
    set -- $way
    for sizes in "-b 64K --algo ring --iters 1000000 --check 0" "-b 8 --step-bytes 8 --iters 1 --warmup 0"; do
      # shellcheck disable=SC2086
      begin run -H 'node[01-04]:2' --op-timeout 5 allreduce -e 64K $sizes
      await_running
      drop add "$1" "$2"
      started=$(date +%s%N)
      end
      is_code 6
      has_err "cannot reach rank"
      has_err "has acknowledged nothing for"
      has_err "collctl doctor"
      names_only $(printf 'node%02d\n' "$1" "$2" | sort)
      within 12
      drop del "$1" "$2"
    done
  done
  nothing_left
fi

if case_is "a rank that cannot reach rank 0"; then
  drop add 1 3
  run run -H 'node[01-03]:2' --start-timeout 16 allreduce -b 1K -e 1K
  is_code 6
  has_err "(host node03) cannot connect to rank 0 (host node01)"
  within 30
  drop del 1 3
  nothing_left
fi

if case_is "ranks' own deadlines come before the launcher's, however long hosts took to come up"; then
  nsenter -t "$rig_head_pid" -n tc qdisc add dev v2 root tbf rate 8mbit burst 32k latency 400ms
  rig_node 2 ip route add blackhole "$(rig_address 3)/32"
  run run -H 'node[01-03]:2' --stage always --start-timeout 40 allreduce -b 1K -e 1K
  [ "$rc" = 5 ] || is_code 6
  has_err "cannot connect to"
  within 50
  nsenter -t "$rig_head_pid" -n tc qdisc del dev v2 root
  rig_node 2 ip route del blackhole "$(rig_address 3)/32"
  nothing_left
fi

if case_is "a host is cut off while the binary is sent to it: nothing stays there"; then
  nsenter -t "$rig_head_pid" -n tc qdisc add dev v2 root tbf rate 1mbit burst 32k latency 400ms
  begin run -H 'node[01-02]:1' --stage always --start-timeout 8 -- true
  await_processes 2 'head -c'
  rig_link 2 down
  end
  is_code 4
  has_err "node02"
  nothing_left
  nsenter -t "$rig_head_pid" -n tc qdisc del dev v2 root
  rig_link 2 up
fi

if case_is "a host is cut off while others are brought up: its agent leaves"; then
  rig_blackhole 2 on
  COLLCTL_HEARTBEAT_TIMEOUT=4 begin run -H 'node[01-02]:1' --connect-timeout 40 -- true
  await_processes 1 'collctl __agent$'
  rig_link 1 down
  left=$(rig_leftover 1 300) # without a first beat it waits for 15 s
  [ -z "$left" ] || fail "on node 1 there is still: $left"
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
  await_processes 1 '__agent'
  kill -STOP "$launcher"
  sleep 8
  rig_node 2 kill -CONT "$sshd"
  kill -CONT "$launcher"
  end
  is_code 0
  # While it sends the binary: what is left of the start afterwards is what was left before.
  nsenter -t "$rig_head_pid" -n tc qdisc add dev v2 root tbf rate 12mbit burst 32k latency 400ms
  begin run -H 'node[01-02]:1' --stage always --start-timeout 20 -- true
  await_processes 2 'head -c'
  kill -STOP "$launcher"
  sleep 17
  kill -CONT "$launcher"
  end
  is_code 0
  nsenter -t "$rig_head_pid" -n tc qdisc del dev v2 root
  # Longer than the hosts wait: then it says so itself.
  COLLCTL_HEARTBEAT_TIMEOUT=4 begin run -H 'node[01-02]:1' "${long[@]}"
  await_running
  kill -STOP "$launcher"
  sleep 9
  kill -CONT "$launcher"
  end
  is_code 5
  has_err "collctl itself did not run for"
  lacks_err "was lost during the run"
  # And where the ranks came to their end meanwhile, and so before the hosts' patience was over, nothing is missing.
  COLLCTL_HEARTBEAT_TIMEOUT=4 begin run -H 'node[01-02]:1' -- sh -c 'until [ -e "$HOME/over" ]; do sleep 0.05; done; echo done'
  await_processes 1 '[0-9] sh -c until'
  await_processes 2 '[0-9] sh -c until'
  kill -STOP "$launcher"
  for i in 1 2; do rig_node $i sh -c 'touch "$HOME/over"'; done
  sleep 9
  kill -CONT "$launcher"
  end
  is_code 0
  [ "$(grep -c done "$out")" = 2 ] || fail "a rank's words are missing"
  for i in 1 2; do rig_node $i sh -c 'rm "$HOME/over"'; done
  nothing_left
fi

if case_is "Ctrl-Z of a collective for longer than the heartbeat"; then
  COLLCTL_HEARTBEAT_TIMEOUT=4 begin run -H 'node[01-02]:1' allreduce -b 64K -e 64K --iters 20000 --check 0 --sync each
  await_running
  kill -TSTP "$launcher"
  for _ in $(seq 100); do [[ $(ps -o stat= -p "$launcher") = T* ]] && break; sleep 0.05; done
  [[ $(ps -o stat= -p "$launcher") = T* ]] || fail "the launcher is not stopped"
  sleep 9
  kill -CONT "$launcher"
  end
  is_code 0
  nothing_left
fi

if case_is "the launcher's own guard stopped or killed costs nothing"; then
  for signal in STOP KILL; do
    begin run -H 'node[01-02]:1' "${long[@]}"
    await_running
    guard=$(ps --ppid "$launcher" -o pid=,comm= | awk '$2 == "collctl-guard" { print $1 }')
    kill -$signal "${guard:?the launcher has no guard}"
    sleep 1
    kill -INT "$launcher"
    end
    is_code 130
    lacks_err guard
    ! kill -0 "$guard" 2>/dev/null || fail "the guard stays"
    nothing_left
  done
fi

if case_is "a stopped guard costs nothing"; then
  COLLCTL_HEARTBEAT_TIMEOUT=4 begin run -H 'node[01-02]:1' allreduce -b 64K -e 64K --iters 20000 --check 0 --sync each
  await_running
  rig_node 1 sh -c 'kill -STOP $(ps -e -o pid=,comm= | awk "/collctl-guard/ { print \$1 }")'
  end
  is_code 0
  nothing_left
fi

if case_is "a hang between rows is told as soon as one within them"; then
  for size in 0 64K; do
    begin run -H 'node[01-02]:1' --op-timeout 4 allreduce -b $size -e $size --iters 1000000 --check 0 --sync each
    await_running
    started=$(date +%s%N)
    rig_node 2 sh -c 'kill -STOP $(ps -e -o pid=,args= | awk "/__rank/ && !/awk/ { print \$1; exit }")'
    end
    is_code 6
    has_err "node02"
    has_err "stopped"
    within 7.5
  done
  nothing_left
fi

if case_is "what died is said: ssh here, an agent there"; then
  begin run --ssh-client openssh -H 'node[01-02]:1' "${long[@]}"
  await_running
  for pid in $(rig_head_processes); do
    tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q '^ssh .*node02' && kill -KILL "$pid" && break
  done
  end
  is_code 5
  has_err "the process 'ssh' of this machine"
  has_err "was killed by signal 9 (SIGKILL)"
  nothing_left
  for client in libssh2 openssh; do
    begin run --ssh-client $client -H 'node[01-02]:1' "${long[@]}"
    await_running
    rig_node 2 sh -c 'kill -KILL $(ps -e -o pid=,args= | awk "/__agent/ && !/awk/ && !/sh -c/ { print \$1; exit }")'
    end
    is_code 5
    has_err "node02"
    has_err "its agent was killed by"
  done
  nothing_left
fi

if case_is "an agent that is stopped while its ranks die: its host is named, and not those who lost them"; then
  for signal in KILL STOP; do
    begin run -H 'node[01-03]:2' --op-timeout 3 "${long[@]}"
    await_running
    rig_node 2 sh -c 'kill -STOP $(ps -e -o pid=,args= | awk "/__agent/ && !/awk/ && !/sh -c/ { print \$1 }")
      kill -'$signal' $(ps -e -o pid=,args= | awk "/__rank/ && !/awk/ { print \$1 }")'
    end
    is_code 5
    names_only node02
    rig_node 2 sh -c 'kill -CONT $(ps -e -o pid=,args= | awk "/__agent|__rank/ && !/awk/ { print \$1 }")'
  done
  nothing_left
fi

if case_is "an agent of another make costs no more than its time"; then
  for mode in malformed frame rank; do
    hostile_on 2 $mode
    started=$(date +%s%N)
    run run -H 'node[01-02]:1' -- true
    is_code 4
    has_err node02
    within 20
    rig_sshd_reset 2
  done
  # The time is up: who does not listen gets no grace, and who does no more than that.
  hostile_on 2 deaf
  started=$(date +%s%N)
  run run -H 'node[01-02]:1' --timeout 5 -- sleep 777
  is_code 6
  within 8.5
  hostile_on 2 stubborn
  for what in "-- sleep 777" "${long[*]}"; do
    started=$(date +%s%N)
    run run -H 'node[01-02]:1' --timeout 5 --grace 1 $what
    is_code 6
    within 9.5
  done
  rig_sshd_reset 2
  hostile_on 2 silent
  for command in topo doctor; do
    started=$(date +%s%N)
    run $command -H 'node[01-02]' --start-timeout 6
    [ "$rc" != 0 ] || fail "$command: exit code 0"
    grep -q "node02" "$out" "$err" || fail "$command does not name node02"
    within 25
  done
  rig_sshd_reset 2
  nothing_left
fi

[ $failures = 0 ] || { say "$failures failures"; exit 1; }
say "all passed"
