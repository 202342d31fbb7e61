#!/bin/bash
# Jobs on other hosts with the real binary and real SSH servers, on hosts in namespaces (ssh_rig.sh).
# Usage: remote_jobs.sh PATH/collctl [CASE-PATTERN]. Every case says what it expected; after each one nothing of a
# job may be left on any host. Exit 1 when one failed, 77 where hosts cannot be made.
. "$(dirname "$(realpath "$0")")/remote_common.sh"

if case_is "16 ranks on 4 hosts, to which the binary is sent; then uneven ones, and it is not sent again"; then
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
  run run -H 'node01:1,node02:3,node03:1' alltoallv -b 8 -e 64K -f 64 --json
  is_code 0
  has_out '"ok":true'
  has_out '"staged":false'
  ! grep -q '"staged":true' "$out" || fail "sent again"
  nothing_left
fi

if case_is "a host whose GPUs cannot be used ends the job; all on cores only when that is said"; then
  for i in 1 2; do # as users' hosts are
    sed -i '/^SetEnv CUDA/d' "$rig/node0$i/sshd_config"
    rig_sshd_stop $i
    rig_sshd_start $i
  done
  mkdir -p "$rig/pci/0000:4b:00.0" "$rig/no-pci"
  echo 0x10de >"$rig/pci/0000:4b:00.0/vendor"
  echo 0x030200 >"$rig/pci/0000:4b:00.0/class"
  for i in 1 2; do rig_node $i mount --bind "$rig/no-pci" /sys/bus/pci/devices; done
  [ ! -e /proc/driver/nvidia ] || for i in 1 2; do rig_node $i mount -t tmpfs none /proc/driver/nvidia; done
  run run -H node01,node02 allreduce -b 8 -e 8
  is_code 0
  has_out "# on CPU cores: no host has an NVIDIA GPU"
  rig_node 2 mount --bind "$rig/pci" /sys/bus/pci/devices
  run run -H node01,node02 allreduce -b 8 -e 8
  is_code 3
  has_err "host node02: it has 1 NVIDIA GPU, of which none can be used"
  has_err "--device cpu"
  run run -H node01,node02 allreduce -b 8 -e 8 --device cpu --json
  is_code 0
  has_out '"device_reason":"--device cpu"'
  rig_node 2 umount /sys/bus/pci/devices
  run run -H node01,node02 -x CUDA_VISIBLE_DEVICES=0 allreduce -b 8 -e 8
  is_code 3
  has_err "CUDA_VISIBLE_DEVICES=0, but it has no NVIDIA device"
  for i in 1 2; do
    rig_node $i umount /sys/bus/pci/devices
    rig_sshd_reset $i
  done
  nothing_left
fi

if case_is "a host of another architecture is refused, or gets the binary that is named for it"; then
  printf '#!/bin/sh\necho mips64\n' >"$rig/uname"
  chmod 755 "$rig/uname"
  rig_node 2 mount --bind "$rig/uname" /usr/bin/uname
  run run -H node01,node02 allreduce -b 8 -e 8
  is_code 4
  has_err "there is no collctl for its architecture, mips64"
  has_err "--binary-for mips64=PATH"
  run run -H node01,node02 --binary-for "mips64=$collctl" allreduce -b 8 -e 8
  is_code 0
  rig_node 2 umount /usr/bin/uname
  nothing_left
fi

if case_is "groups: each host by itself, and one of each host"; then
  run run -H 'node01:1,node02:3,node03:2' allreduce --split host -b 8 -e 64K -f 64 --json
  is_code 0
  python3 - "$out" <<'PY' || fail "the groups are not the hosts"
import json, sys
report = json.load(open(sys.argv[1]))
assert [g["hosts"] for g in report["groups"]] == [["node01"], ["node02"], ["node03"]], report["groups"]
assert [g["ranks"] for g in report["groups"]] == [h["ranks"] for h in report["hosts"]], report["groups"]
assert report["links"] and all(l["via"].startswith("SHM") for l in report["links"]), report["links"]
rows = report["results"]
assert [r["group"] for r in rows] == [0, 1, 2] * (len(rows) // 3), rows
assert all(r[p]["wrong"] == 0 for r in rows for p in ("out_of_place", "in_place"))
PY
  run run -H 'node[01-03]:2' reducescatter --split mod:2 -b 8 -e 64K -f 64 --json
  is_code 0
  python3 - "$out" <<'PY' || fail "the groups are not over the hosts"
import json, sys
report = json.load(open(sys.argv[1]))
assert [g["ranks"] for g in report["groups"]] == [[0, 2, 4], [1, 3, 5]], report["groups"]
assert all(g["hosts"] == ["node01", "node02", "node03"] for g in report["groups"]), report["groups"]
assert report["links"] and all(l["via"].startswith("NET") for l in report["links"]), report["links"]
PY
  nothing_left
fi

if case_is "a program: its place, the exit code of the first rank that fails, in the report as well; one that is not there"; then
  run run -H 'node01:2,node02:2' -- sh -c 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $(hostname)"'
  is_code 0
  [ "$(sort "$out")" = "0 4 0 2 0 node01
1 4 1 2 0 node01
2 4 0 2 1 node02
3 4 1 2 1 node02" ] || fail "wrong places"
  run run -H 'node01:2,node02:2' -o "$rig/report.json" -- sh -c '[ $RANK != 3 ] || { echo "it is broken" >&2; exit 42; }; sleep 777'
  is_code 42
  has_err "rank 3"
  has_err "node02"
  has_err "it is broken"
  python3 - "$rig/report.json" <<'PY' || fail "the report does not name who failed"
import json, sys
reason = json.load(open(sys.argv[1]))["verdict"]["reasons"][0]
assert reason["rank"] == 3 and reason["host"] == "node02", reason
PY
  run run -H 'node01:1,node02:1' -- no-such-program
  is_code 4
  has_err "no-such-program"
  has_err "2 hosts could not start their ranks"
  has_err "host node01: start rank 0 of 2"
  has_err "host node02: start rank 1 of 2"
  nothing_left
fi

if case_is "environment goes along by name and pattern, secrets do not; site files count after it"; then
  COLLCTL_TOKEN=hush FOO_A=1 FOO_B=2 BAR=3 run run -H node01:1 -x 'FOO_*' -x BAZ=a=b -- sh -c 'env; tr "\0" " " </proc/$PPID/cmdline'
  is_code 0
  has_out FOO_A=1
  has_out FOO_B=2
  has_out BAZ=a=b
  for word in BAR= hush; do ! grep -q "$word" "$out" || fail "'$word' has come along"; done
  # A site file of the host counts before the launcher's.
  printf 'NCCL_ALGO=ring\nNCCL_PROTO=simple\nCOLLCTL_STEPS=4\nFI_OF_A_PLUGIN=1\n' >"$rig/head/home/.nccl.conf"
  printf 'NCCL_PROTO=ll\nnonsense\n' >"$rig/node01/home/.nccl.conf"
  NCCL_ALGO=tree run run -H node01:1,node02:1 --tag-output -- sh -c 'echo $NCCL_ALGO $NCCL_PROTO $COLLCTL_STEPS $FI_OF_A_PLUGIN'
  is_code 0
  has_out "] tree ll 4 1"
  has_out "] tree simple 4 1"
  has_err ".nccl.conf: line 2 is not NAME=VALUE"
  run run -H node01:1,node02:1 allreduce -b 1K -e 1K --proto simple --json
  is_code 0
  has_out '"algorithm":"ring"'
  rm "$rig/head/home/.nccl.conf" "$rig/node01/home/.nccl.conf"
fi

if case_is "standard input to rank 0 and to all"; then
  head -c 3000000 /dev/urandom | base64 >"$rig/input"
  rig_head timeout 240 "$collctl" run -H 'node01:1,node02:1' --stdin 0 -- md5sum <"$rig/input" >"$out" 2>"$err"; rc=$?
  is_code 0
  has_out "$(md5sum <"$rig/input" | cut -d' ' -f1)"
  rig_head timeout 240 "$collctl" run -H 'node01:1,node02:1' --stdin all --gather -- md5sum <"$rig/input" >"$out" 2>"$err"; rc=$?
  is_code 0
  [ "$(grep -c "$(md5sum <"$rig/input" | cut -d' ' -f1)" "$out")" = 1 ] || fail "not gathered"
fi

if case_is "hosts without slots have a rank for each core, as here; this host is known by each of its addresses"; then
  cores=$(rig_node 1 nproc)
  run run -H 'node[01-02]' -- hostname
  is_code 0
  [ "$(sort "$out" | uniq -c | awk '{ printf "%s:%s ", $2, $1 }')" = "node01:$cores node02:$cores " ] ||
    fail "not $cores of each"
  run allreduce -H 'node[01-02]' -N 1 -b 8 -e 8 --json # a collective takes what run takes
  is_code 0
  has_out '"ranks":2'
  # An address of this host is this host, to which nothing logs in.
  for here in "$rig_network.254" 127.0.1.1 "${rig_network6}fe"; do
    case $here in *::*) entry="[$here]" ;; *) entry=$here ;; esac
    run run -H "$entry:1,node01:1" --tag-output -- hostname
    is_code 0
    [ "$(sort "$out")" = "$(printf '[0 %s] head\n[1 node01] node01' "$here")" ] || fail "$here: not head and node01"
  done
fi

if case_is "much output in whole lines, each tagged; a reader that sleeps longer than the heartbeat holds the ranks back, no more"; then
  COLLCTL_HEARTBEAT_TIMEOUT=4 rig_head timeout 240 bash -c '"$1" run -H node01:1,node02:1 --tag-output -- sh -c "yes \$RANK-\$(hostname)-0123456789012345678901234567890123456789 | head -c 30000000" 2>"$2" | (sleep 9; awk "{ ++n[\$0] } END { for (l in n) print n[l], l }") >"$3"; exit ${PIPESTATUS[0]}' - "$collctl" "$err" "$out"; rc=$?
  is_code 0
  # One line of each rank often, and the one that was cut by its command.
  [ "$(grep -cE '^ *[0-9]+ \[(0 node01|1 node02)\] ' "$out")" = "$(wc -l <"$out")" ] && [ "$(wc -l <"$out")" -le 4 ] || fail "lines were broken"
  [ "$(awk '{ n += $1 * (length($4) + 1) } END { print n }' "$out")" -ge 59999900 ] || fail "output is missing"
  nothing_left
fi

if case_is "all bad hosts in one report, each with its cause"; then
  ssh-keygen -q -t ed25519 -N '' -f "$rig/other_key"
  cp "$rig/head/home/.ssh/known_hosts" "$rig/known_hosts.kept"
  grep -v '^node03' "$rig/known_hosts.kept" | sed "s|^\(node04[^ ]*\) .*|\1 $(cut -d' ' -f1,2 "$rig/other_key.pub")|" \
    >"$rig/head/home/.ssh/known_hosts"
  rig_sshd_stop 2
  mv "$rig/node05/home/.ssh/authorized_keys" "$rig/authorized_keys.kept"
  run run -H 'node[01-05],no-such-host' --connect-timeout 600 --start-timeout 600 -- true # none of them takes that long
  is_code 4
  has_err "5 of 6 hosts failed"
  for word in "node02: " "node03: " "node04: " "node05: " "no-such-host: " refused "does not resolve"; do has_err "$word"; done
  lacks_err "node01: "
  grep -E '^ *node03: ' "$err" | grep -qiE 'unknown|known_hosts' || fail "node03: an unknown host is not named so"
  grep -E '^ *node04: ' "$err" | grep -qiE 'chang' || fail "node04: a changed key is not named so"
  grep -E '^ *node05: ' "$err" | grep -qiE 'auth|key|permission' || fail "node05: refused authentication is not named so"
  run run -H 'node[01-05]:1' --allow-missing 4 -- hostname
  is_code 8
  is_out node01
  has_err node05
  run run -H 'node[01-03]:1' --allow-missing 1 -- hostname
  is_code 4
  run run -H 'node[01-02]:2' --allow-missing 1 allreduce -b 8 -e 8 --json
  is_code 8
  has_out '"host-left-out"'
  mv "$rig/authorized_keys.kept" "$rig/node05/home/.ssh/authorized_keys"
  cp "$rig/known_hosts.kept" "$rig/head/home/.ssh/known_hosts"
  rig_sshd_start 2
  nothing_left
fi

if case_is "hosts without ranks are named; one of them that is not reached is no pass"; then
  run run -n 4 -H 'node[01-04]:4' allreduce -b 8 -e 8
  is_code 0
  has_err "note: no ranks on 3 of 4 hosts: node02, node03, node04; --map-by host or -N 1 puts some on every host"
  rig_sshd_stop 3
  run run -n 4 -H 'node[01-04]:4' allreduce -b 8 -e 8 --json
  is_code 8
  has_out '"host-left-out"'
  has_out '"host":"node03"'
  has_err "left out: host node03: "
  has_err "no ranks on 2 of 4 hosts: node02, node04;"
  run run -n 3 -H 'node[01-04]:4' -- true
  is_code 8
  has_err "1 of 4 hosts took no part: node03"
  has_err "; -n 4 --map-by host puts some on every host"
  run run -n 4 -N 1 -H 'node[01-04]:4' allreduce -b 8 -e 8
  is_code 4
  rig_sshd_start 3
  run run -n 4 -N 1 -H 'node[01-04]:4' allreduce -b 8 -e 8
  is_code 0
  lacks_err "no ranks on"
  nothing_left
fi

if case_is "a full disk, a read-only one, noexec: told before anything runs"; then
  for i in 1 2 3; do rig_node $i rm -rf "$rig_home/.cache"; rig_node $i mkdir -p "$rig_home/.cache"; done
  rig_node 1 mount -t tmpfs -o size=1m none "$rig_home/.cache"
  rig_node 2 mount -t tmpfs -o noexec none "$rig_home/.cache"
  rig_node 3 mount -t tmpfs -o ro none "$rig_home/.cache"
  run run -H 'node[01-04]:1' -- true
  is_code 4
  has_err "3 of 4 hosts failed"
  grep -E '^ *node01: ' "$err" | grep -q 'No space left' || fail "node01: a full disk is not named so"
  grep -E '^ *node02: ' "$err" | grep -q 'noexec' || fail "node02: noexec is not named so"
  grep -E '^ *node03: ' "$err" | grep -q 'Read-only' || fail "node03: a read-only file system is not named so"
  nothing_left
  run run -H 'node[01-03]:1' --remote-path "$rig_home/bin/collctl" -- hostname
  is_code 0
  for i in 1 2 3; do rig_node $i umount "$rig_home/.cache"; done
  run run -H node01:1 --stage never -- true
  is_code 4
  has_err "there is no collctl at"
fi

if case_is "a hostfile with a jump host, another port, a user and a path"; then
  rig_blackhole 2 on
  rig_sshd_conf 4 'Port 2222'
  sed -n 's/^node04,[^ ]* /[node04]:2222 /p' "$rig/head/home/.ssh/known_hosts" >>"$rig/head/home/.ssh/known_hosts"
  printf 'node02 jump=node01 slots=2\ntester@node04 slots=1 port=2222 path=~/of-tester/collctl\n' >"$rig/hosts"
  run run --hostfile "$rig/hosts" -- sh -c 'echo "$RANK $(hostname) $(id -un)"'
  is_code 0
  [ "$(sort "$out")" = "0 node02 root
1 node02 root
2 node04 tester" ] || fail "not those hosts and users"
  rig_blackhole 2 off
  rig_sshd_reset 4
  nothing_left
fi

if case_is "a shell that refuses, one that does not end"; then
  echo 'echo "this account is closed"; exit 3' >"$rig/node01/home/.bashrc"
  run run -H 'node[01-02]:1' -- hostname
  is_code 4
  has_err "this account is closed"
  rm "$rig/node01/home/.bashrc"
  mkfifo "$rig/node01/home/silent"
  echo 'echo "one moment"; read -r answer <>~/silent' >"$rig/node01/home/.bashrc"
  run run -H 'node[01-02]:1' --connect-timeout 4 --allow-missing 1 -- hostname
  is_code 8
  is_out node02
  has_err "node01: logged in, but its login shell has not started the agent within 8 s"
  run run -H node01:1 --connect-timeout 4 -- hostname
  is_code 4
  has_err '`ssh node01 true` must end by itself'
  printf '\n\n' >"$rig/node01/home/silent"
  rm "$rig/node01/home/.bashrc" "$rig/node01/home/silent"
  nothing_left
fi

[ $failures = 0 ] || { say "$failures failures"; exit 1; }
say "all passed"
