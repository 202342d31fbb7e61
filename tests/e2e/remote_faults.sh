#!/bin/bash
# What breaks, is ended or takes too long in jobs on other hosts, with the real binary and real SSH servers, on hosts in namespaces (ssh_rig.sh).
# Usage: remote_faults.sh PATH/collctl [CASE-PATTERN]. Every case says what it expected; after each one nothing of a
# job may be left on any host. Exit 1 when one failed, 77 where hosts cannot be made.
. "$(dirname "$(realpath "$0")")/remote_common.sh"
stage

if case_is "a rank crashes"; then
  begin run -H 'node[01-02]:2' "${long[@]}"
  await_running
  victim=$(rank_on 2)
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
    rig_head timeout 180 "$collctl" run --ssh-client $client -H node01:1 -- \
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
  COLLCTL_HEARTBEAT_TIMEOUT=6 begin run -H 'node[01-03]:1' "${long[@]}"
  await_running
  rig_link 3 down
  end
  is_code 5
  has_err "host node03 was lost"
  has_err "no heartbeat"
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
  run run -H 'node[01-02]:1' --connect-timeout 60 --timeout 8 -- sleep 777
  is_code 6
  has_err "host node02: not up within 8 s (--timeout)"
  within 40
  rig_blackhole 2 off
  nothing_left
fi

if case_is "Ctrl-Z for longer than the heartbeat"; then
  for client in libssh2 openssh; do
    COLLCTL_HEARTBEAT_TIMEOUT=4 begin run --ssh-client $client -H 'node[01-02]:1' -- \
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
  begin run -H 'node[01-02]:1' --connect-timeout 60 -- sleep 777
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
      script -qec "$collctl run --ssh-client libssh2 -H node01:1,node02:1 -- true" /dev/null >"$out" 2>"$err"; rc=$?
    is_code 130
    has_out "password: "
    within 120
    for i in 1 2; do rig_sshd_reset $i; done
    nothing_left
  fi
fi

if case_is "deadlines: of the job, of a hung rank"; then
  run run -H 'node[01-02]:1' --timeout 1 -- sleep 777
  is_code 6
  has_err "--timeout"
  begin run -H 'node[01-02]:1' --op-timeout 5 "${long[@]}"
  await_running
  rig_node 2 sh -c 'kill -STOP $(ps -e -o pid=,args= | awk "/__rank/ && !/awk/ { print \$1; exit }")'
  end
  is_code 6
  has_err "node02"
  has_err "stopped"
  nothing_left
fi

[ $failures = 0 ] || { say "$failures failures"; exit 1; }
say "all passed"
