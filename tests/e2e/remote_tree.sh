#!/bin/bash
# Jobs whose hosts are reached in a tree (--tree-width), with the real binary and real SSH servers, on hosts in
# namespaces. Of seven hosts with a width of two node01 carries node02 and node03, node04 carries node05 to node07, and
# of these node06 carries node07.
# Usage: remote_tree.sh PATH/collctl [CASE-PATTERN]. TREE_HOSTS=32 (or 64): besides as many hosts, with faults, and those alone.
# Exit 1 when a case failed, 77 where hosts cannot be made.
hosts=${TREE_HOSTS:-7}
nodes=$hosts
. "$(dirname "$(realpath "$0")")/remote_common.sh"
export COLLCTL_TREE_WIDTH=2
all="node[01-$(printf %02d "$hosts")]"
# Hosts log in to each other with head's key and know each other as head does.
trust() {
  local name
  for name in "${rig_hosts[@]}"; do cp "$rig"/head/home/.ssh/{id_ed25519,known_hosts} "$rig/$name/home/.ssh/"; done
}
trust
# The agents of the whole tree are there: the program runs on every host.
await_all() {
  local i cues=()
  for ((i = 1; i <= hosts; ++i)); do cues+=(-- proc "${rig_pids[$i]}" ' . sleep sleep 777$' "$1"); done
  await -of "$launcher" "${cues[@]:1}"
}

if [ "$hosts" -gt 7 ]; then
  export COLLCTL_TREE_WIDTH=8
  patient=(--connect-timeout 60 --start-timeout 200)
  last=$hosts
  if case_is "$hosts hosts"; then
    run run -H "$all:1" "${patient[@]}" --gather -o "$rig/tree.json" -- hostname
    is_code 0
    [ "$(grep -c '^node' "$out")" = "$hosts" ] || fail "not $hosts groups"
    [ "$(grep -o '"from node' "$rig/tree.json" | wc -l)" = $((hosts - 8)) ] || fail "not $((hosts - 8)) hosts were carried"
    nothing_left
    run run -H "$all:1" "${patient[@]}" --op-timeout 120 allreduce -b 4 -e 64K -f 16384 --iters 2 --warmup 1
    is_code 0
    has_out "Verdict              : passed"
    nothing_left
  fi
  if case_is "not in a tree, and so many at a time"; then
    COLLCTL_TREE_WIDTH=0 run run -H "$all:2" "${patient[@]}" --op-timeout 120 allreduce -b 4 -e 64K -f 16384 --iters 2 --warmup 1 --json
    is_code 0
    python3 - "$out" "$hosts" <<'PY' || fail "the report is not as expected"
import json, sys
report, hosts = json.load(open(sys.argv[1])), int(sys.argv[2])
assert report["ranks"] == 2 * hosts and len(report["hosts"]) == hosts
host = {rank: line["host"] for line in report["hosts"] for rank in line["ranks"]}
for link in report["links"]:
    assert link["via"].startswith("NET") == (host[link["from"]] != host[link["to"]]), link
assert all(r[p]["wrong"] == 0 for r in report["results"] for p in ("out_of_place", "in_place"))
PY
    COLLCTL_TREE_WIDTH=0 run run -H "$all:2" --fanout 8 "${patient[@]}" --gather -- hostname
    is_code 0
    [ "$(grep -c '^node' "$out")" = "$hosts" ] || fail "not $hosts groups"
    nothing_left
  fi
  if case_is "an agent that carries others is killed"; then
    begin run -H "$all:1" "${patient[@]}" -- sleep 777
    await_all 1
    strike KILL 9 "$agent"
    end
    is_code 5
    has_err "host node09 was lost"
    nothing_left
  fi
  if case_is "an agent that carries others is stopped"; then
    COLLCTL_HEARTBEAT_TIMEOUT=10 begin run -H "$all:1" "${patient[@]}" -- sleep 777
    await_all 1
    strike STOP 9 "$agent"
    end
    is_code 5
    has_err "host node09 was lost"
    has_err "no heartbeat"
    rig_node 9 kill -CONT "$found"
    nothing_left
  fi
  if case_is "the launcher is killed"; then
    begin run -H "$all:1" "${patient[@]}" -- sh -c 'setsid sleep 777 & sleep 777'
    await_all 2
    kill -KILL "$launcher"
    end
    nothing_left
  fi
  [ "$failures" = 0 ] && say "all passed"
  exit $((failures > 0))
fi

if case_is "a program and a collective: every host is there, and who was reached from where"; then
  run run -H "$all:1" --gather -o "$rig/tree.json" -- hostname
  is_code 0
  [ "$(grep -c '^node' "$out")" = 7 ] || fail "not 7 groups"
  python3 - "$rig/tree.json" <<'PY' || fail "not reached as expected: $(grep client "$rig/tree.json")"
import json, sys
way = [h["client"].split(":")[0] for h in json.load(open(sys.argv[1]))["launch"]["hosts"]]
way = [w.split()[0] if w.startswith("libssh2") else w for w in way]
assert way == ["libssh2", *["from node01"] * 2, "libssh2", *["from node04"] * 2, "from node06"], way
PY
  run run -H "$all:2" allreduce -b 4 -e 64K -f 16384 --iters 2 --warmup 1
  is_code 0
  has_out "Verdict              : passed"
  nothing_left
fi

if case_is "standard input, the end of a rank, and no secret in a list of processes"; then
  seq 100000 >"$rig/numbers"
  rig_head timeout 120 "$collctl" run -H "$all:1" --stdin all --ssh-client openssh -- md5sum <"$rig/numbers" >"$out" 2>"$err"
  [ "$(sort -u "$out")" = "$(md5sum <"$rig/numbers")" ] || fail "what arrived is not what was sent"
  nothing_left
  begin run -H "$all:1" -x WORD=closed-book -- sh -c '[ "$WORD" = closed-book ] && exec sleep 777'
  await_all 1
  for ((i = 1; i <= 7; ++i)); do
    ! rig_node "$i" sh -c 'cat /proc/[0-9]*/cmdline' | grep -qa closed-book || fail "node $i shows it"
  done
  strike KILL 7 ' . sleep sleep 777$'
  end
  is_code 137
  has_err node07
  nothing_left
fi

if case_is "a host that is down has its place taken"; then
  rig_sshd_stop 4
  run run -H "$all:1" -- hostname
  is_code 4
  has_err "host node04: cannot connect to"
  lacks_err node05
  run run -H "$all:1" --allow-missing 1 --gather -- hostname
  is_code 8
  [ "$(grep -c '^node' "$out")" = 6 ] || fail "not 6 groups"
  rig_sshd_start 4
  nothing_left
fi

if case_is "a host that does not know another, or is not let in"; then
  : >"$rig/node04/home/.ssh/known_hosts"
  run run -H "$all:1" -- hostname
  is_code 4
  has_err "3 of 7 hosts failed"
  has_err "node05: from node04: its host key is unknown"
  has_err "node04 logs in to node07 because of --tree-width"
  lacks_err "node02:"
  trust
  rm "$rig/node06/home/.ssh/id_ed25519"
  run run -H "$all:1" -- hostname
  is_code 4
  has_err "host node07: from node06: user root was refused by the host"
  has_err "node06 logs in to node07 because of --tree-width"
  trust
  nothing_left
fi

if case_is "an agent that carries others is killed: it is named, not they"; then
  begin run -H "$all:1" "${long[@]}"
  await_running
  strike KILL 4 "$agent"
  end
  is_code 5
  has_err "host node04 was lost during the run, with rank 3: its agent was killed"
  nothing_left
  begin run -H "$all:1" -- sleep 777
  await_all 1
  strike KILL 6 "$agent"
  end
  is_code 5
  has_err "host node06 was lost during the run, with rank 5: its agent was killed"
  nothing_left
fi

if case_is "the cable of a host that carries others is pulled"; then
  COLLCTL_HEARTBEAT_TIMEOUT=4 begin run -H "$all:1" -- sleep 777
  await_all 1
  rig_link 4 down
  end
  is_code 5
  has_err "host node04 was lost during the run, with rank 3: no heartbeat"
  nothing_left
  rig_link 4 up
fi

if case_is "going on without what was cut off"; then
  COLLCTL_UNTIL=$rig/go begin run -H "$all:1" --on-loss shrink allreduce -b 64K -e 64K --iters 10
  await_running
  strike KILL 4 "$agent"
  await -of "$launcher" line "$out" '^# lost: ' && touch "$rig/go"
  end
  is_code 8
  has_out "cut off, because host node04"
  nothing_left
fi

if case_is "the launcher is killed: all of the tree goes"; then
  begin run -H "$all:1" -- sh -c 'setsid sleep 777 & sleep 777'
  await_all 2
  kill -KILL "$launcher"
  end
  nothing_left
fi

[ "$failures" = 0 ] && say "all passed"
exit $((failures > 0))
