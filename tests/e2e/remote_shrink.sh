#!/bin/bash
# --on-loss shrink on hosts in namespaces (ssh_rig.sh), with the real binary and real SSH servers: ranks, agents and hosts are lost, and the others
# go on. Usage: remote_shrink.sh PATH/collctl [CASE-PATTERN]. The data is checked; nobody innocent is named; nothing stays.
nodes=4
. "$(dirname "$(realpath "$0")")/remote_common.sh"
stage
lossy=(run --on-loss shrink --start-timeout 20 -o $rig/report.json allreduce -b 64K -e 256K --iters 300 --warmup 1)
hosts='node[01-03]:2'
lost() { # ranks that a loss may name, in a pattern; the report has no other
  local said
  said=$(grep -o '"lost":\[.*\],"verdict"\|"lost":.*' $rig/report.json | grep -o '"ranks":\[[0-9,]*\]' | grep -o '[0-9]*' | sort -n | tr '\n' ' ')
  [ "$said" = "$1 " ] || fail "lost are '$said', expected '$1'"
}
is_incomplete() {
  is_code 8
  has_out "# lost: "
  has_out "Out of bounds values : 0 OK"
  has_out "# Verdict              : incomplete"
  [ "$(grep -c '^ *\(65536\|131072\|262144\) ' "$out")" = 3 ] || fail "not each size has one row"
}
kill_ranks() { rig_node "$1" sh -c 'kill -KILL $(ps -e -o pid=,args= | awk "/__rank/ && !/awk/ { print \$1 }")'; }

if case_is "one rank is killed"; then
  begin "${lossy[@]}" -H "$hosts"
  await_running
  rig_node 2 kill -KILL "$(rank_on 2)"
  end
  is_incomplete
  has_out "SIGKILL"
  has_out "host node02"
  has_out "5 ranks go on"
  nothing_left
fi

if case_is "rank 0's host loses all its ranks"; then
  begin "${lossy[@]}" -H "$hosts"
  await_running
  kill_ranks 1
  end
  is_incomplete
  lost "0 1"
  nothing_left
fi

if case_is "an agent is killed: its ranks go with it, the others stay"; then
  begin "${lossy[@]}" -H "$hosts"
  await_running
  rig_node 3 sh -c 'kill -KILL $(ps -e -o pid=,args= | awk "/__agent/ && !/awk/ && !/sh -c/ { print \$1; exit }")'
  end
  is_incomplete
  lost "4 5"
  has_out "host node03 was lost during the run"
  nothing_left
fi

if case_is "a host is cut off: found by its heartbeat"; then
  COLLCTL_HEARTBEAT_TIMEOUT=4 begin "${lossy[@]}" -H "$hosts"
  await_running
  rig_link 2 down
  end
  is_incomplete
  lost "2 3"
  has_out "host node02 was lost during the run"
  within 90
  rig_link 2 up
  nothing_left
fi

if case_is "rank 0's host is cut off: the operation's time is over before the heartbeat's"; then
  COLLCTL_HEARTBEAT_TIMEOUT=20 begin "${lossy[@]}" --op-timeout 4 -H "$hosts"
  await_running
  rig_link 1 down
  end
  is_incomplete
  lost "0 1"
  rig_link 1 up
  nothing_left
fi

if case_is "two hosts at once, and a third while the others form anew"; then
  COLLCTL_HEARTBEAT_TIMEOUT=5 begin "${lossy[@]}" -H 'node[01-04]:1' --op-timeout 10
  await_running
  rig_link 3 down
  kill_ranks 2
  end
  is_incomplete
  lost "1 2"
  rig_link 3 up
  nothing_left
  begin "${lossy[@]}" -H 'node[01-04]:2'
  await_running
  kill_ranks 1
  kill_ranks 3
  kill_ranks 4
  end
  is_incomplete
  lost "0 1 4 5 6 7"
  nothing_left
fi

if case_is "a stopped rank is lost after the operation's time, and is gone"; then
  begin "${lossy[@]}" --op-timeout 4 -H "$hosts"
  await_running
  victim=$(rank_on 3)
  rig_node 3 kill -STOP "$victim"
  end
  is_incomplete
  has_out "does not move: stopped (state T)"
  has_out "host node03"
  nothing_left
fi

if case_is "all but one are lost: the job ends as without shrinking"; then
  begin "${lossy[@]}" -H 'node[01-02]:1'
  await_running
  kill_ranks 2
  end
  is_code 5
  has_err "rank 1"
  has_err "SIGKILL"
  nothing_left
fi

if case_is "a way between two hosts that live is cut: whom to leave out would be a guess"; then
  COLLCTL_HEARTBEAT_TIMEOUT=20 begin "${lossy[@]}" --op-timeout 4 -H "$hosts"
  await_running
  rig_node 2 ip route add blackhole "$(rig_address 3)/32"
  end
  rig_node 2 ip route del blackhole "$(rig_address 3)/32"
  [ "$rc" = 5 ] || is_code 6
  ! grep -q '"lost":' $rig/report.json || fail "somebody is lost"
  has_err node02
  has_err node03
  nothing_left
fi

if case_is "Ctrl-C while the others form anew"; then
  COLLCTL_HEARTBEAT_TIMEOUT=20 begin "${lossy[@]}" --op-timeout 10 -H "$hosts"
  await_running
  rig_link 2 down
  sleep 1
  kill -INT "$launcher"
  end
  is_code 130
  within 60
  rig_link 2 up
  nothing_left
fi

[ $failures = 0 ] || { say "$failures failures"; exit 1; }
say "all passed"
