#!/bin/bash
# What other users of a host and strangers on the network try against a job, on hosts in namespaces (ssh_rig.sh); the
# attacker is the user tester. Usage: doors.sh PATH/collctl [CASE-PATTERN]. docs/security.md says what is defended.
. "$(dirname "$(realpath "$0")")/remote_common.sh"

as_tester() { setpriv --reuid 4711 --regid 65534 --clear-groups "$@"; }
tester_on() { local i=$1; shift; rig_node "$i" setpriv --reuid 4711 --regid 65534 --clear-groups "$@"; }
# A clone may lie where others have no access, as in root's home.
install -m 755 "$collctl" "$rig/collctl"
collctl=$rig/collctl
small=(allreduce -b 8 -e 1K)
export COLLCTL_TOKEN=

if case_is "an executable that another user has put at the remote path"; then
  tester_on 1 sh -c "mkdir '$rig_home/tools' && printf '#!/bin/sh\nid -u >>$rig_home/owned\n' >'$rig_home/tools/collctl' && chmod 755 '$rig_home/tools/collctl'"
  printf 'node01 path=%s\n' "$rig_home/tools/collctl" >"$rig/hosts"
  for how in "-H node01 --stage never --remote-path $rig_home/tools/collctl" "--hostfile $rig/hosts"; do
    # shellcheck disable=SC2086
    run run $how "${small[@]}"
    is_code 4
    has_err "belongs to user 4711"
  done
  [ ! -e "$rig/node01/home/owned" ] || fail "it ran as user $(cat "$rig/node01/home/owned")"
  nothing_left
fi

if case_is "links at every name that staging could use in a shared folder"; then
  rig_node 1 sh -c "mkdir -m 1777 '$rig_home/spool' && echo precious >'$rig_home/victim'"
  tester_on 1 python3 - "$rig_home/victim" "$rig_home/spool" <<'PY' || fail "the links cannot be made"
import os, sys
victim, spool = sys.argv[1:]
for name in [".collctl.node01.%d" % pid for pid in range(1, 3001)] + ["link"]: os.symlink(victim, os.path.join(spool, name))
PY
  run run -H node01 --remote-path "$rig_home/spool/collctl" "${small[@]}"
  is_code 0
  run run -H node01 --remote-path "$rig_home/spool/link" "${small[@]}"
  is_code 4
  [ "$(cat "$rig/node01/home/victim")" = precious ] || fail "the victim was overwritten"
  nothing_left
fi

if case_is "another user finds no socket of a running job to connect to; what a killed launcher leaves is removed"; then
  begin run -n 3 "${long[@]}"
  await_running
  reached=$(rig_head python3 - <<'PY'
import glob, os, socket
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(4711, 4711, 4711)
names = [line.split()[7] for line in open("/proc/net/unix") if len(line.split()) > 7]
names = [n.replace("@", "\0", 1) if n[0] == "@" else n for n in names if "collctl" in n]
count = 0
for name in names + glob.glob("/dev/shm/collctl-*/*") + glob.glob("/tmp/collctl-*/*"):
    try: socket.socket(socket.AF_UNIX).connect(name); count += 1
    except OSError: pass
print(len(names), count)
PY
)
  # Three ranks', and the one by which the launcher answers collctl status.
  [ "$reached" = "4 0" ] || fail "sockets seen and reached: $reached, expected 4 0"
  kill -KILL "$launcher"
  end
  await quiet "$rig_head_pid"
fi

join() { # RANK, SIZE, command before it
  local rank=$1 size=$2
  shift 2
  rig_head "$@" timeout -k 5 240 "$collctl" run --join 127.0.0.1:29400 --rank "$rank" --size "$size" \
    --start-timeout "$start_timeout" "${small[@]}" </dev/null >>"$out" 2>>"$err" &
  joined+=($!)
}
ends_with() {
  local pid codes=
  for pid in "${joined[@]}"; do wait "$pid"; codes="$codes$? "; done
  joined=()
  [ "$codes" = "$1" ] || fail "exit codes are '$codes', expected '$1'"
}
joined=()

if case_is "joining on loopback without a token: this user's ranks only"; then
  : >"$out" >"$err"
  start_timeout=120
  join 1 2 env
  join 0 2 env
  ends_with "0 0 "
  : >"$out" >"$err"
  start_timeout=8 # no rank of this user comes
  join 0 2 env
  join 1 2 setpriv --reuid 4711 --regid 65534 --clear-groups
  ends_with "6 5 "
  has_err "no rank 0 of this user has started here"
  [ -z "$(rig_head ls -A /dev/shm)" ] || fail "left in /dev/shm: $(rig_head ls -A /dev/shm)"
fi

if case_is "the token is not in the launcher's environment, not short, not in a file that others can read"; then
  COLLCTL_TOKEN=do-not-show-this-one run run -n 1 -- sh -c 'tr "\0" "\n" </proc/$PPID/environ; env'
  is_code 0
  has_out "HOME="
  ! grep -q do-not-show "$out" || fail "it is"
  COLLCTL_TOKEN=tok4711 run run --join 127.0.0.1:29400 --rank 0 --size 1 "${small[@]}"
  is_code 2
  has_err "at least 16"
  run token
  is_code 0
  cp "$out" "$rig/token"
  for mode in 644 600; do
    chmod $mode "$rig/token"
    run run --join 127.0.0.1:29400 --rank 0 --size 1 --token-file "$rig/token" "${small[@]}"
    [ $mode = 600 ] && is_code 0 || { [ $mode = 644 ] && is_code 2; }
  done
fi

if case_is "a set-uid copy takes no word of its caller"; then
  cp "$collctl" "$rig/setuid"
  chmod 4755 "$rig/setuid"
  as_tester env COLLCTL_DEBUG_FILE=/tmp/of-the-caller NCCL_GRAPH_FILE=/tmp/of-the-caller "$rig/setuid" env >"$out" 2>"$err"; rc=$?
  is_code 0
  ! grep -q of-the-caller "$out" || fail "it does"
  as_tester env COLLCTL_DEBUG_FILE=/tmp/of-the-caller "$collctl" env >"$out"
  has_out of-the-caller
  echo NCCL_GRAPH_FILE=/tmp/of-a-file >"$rig/site.conf"
  as_tester env NCCL_CONF_FILE="$rig/site.conf" HOME="$rig" "$rig/setuid" env >"$out"
  ! grep -q of-a-file "$out" || fail "it reads its caller's files"
  as_tester env NCCL_CONF_FILE="$rig/site.conf" "$collctl" env >"$out"
  has_out "NCCL_GRAPH_FILE ($rig/site.conf)"
fi

if case_is "site files: whose they may be, and in which order they count"; then
  echo NCCL_ALGO=ring >"$rig/theirs.conf"
  chown 4711 "$rig/theirs.conf"
  run_env() { rc=0; "$@" "$collctl" env >"$out" 2>"$err" || rc=$?; }
  run_env env NCCL_CONF_FILE="$rig/theirs.conf"
  is_code 2
  has_err "it belongs to user 4711"
  # In a namespace of its own, where /etc is a copy.
  mkdir "$rig/site-etc" "$rig/site-home"
  cp -a /etc/. "$rig/site-etc/" 2>/dev/null
  printf 'NCCL_ALGO=ring\nNCCL_PROTO=ll\n' >"$rig/site-etc/nccl.conf"
  echo NCCL_PROTO=simple >"$rig/site-home/.nccl.conf"
  unshare -m sh -c "mount --bind '$rig/site-etc' /etc && HOME='$rig/site-home' exec '$collctl' env" >"$out" 2>"$err"; rc=$?
  is_code 0
  has_out "NCCL_ALGO (/etc/nccl.conf)"
  has_out "NCCL_PROTO ($rig/site-home/.nccl.conf)"
  rm -rf "$rig/site-etc"
fi

if case_is "links in the folder for output"; then
  mkdir -m 777 "$rig/output"  # in a sticky one the kernel helps
  echo precious >"$rig/victim"
  as_tester ln -s "$rig/victim" "$rig/output/rank.0.out"
  run run -n 1 --output-dir "$rig/output" -- echo hello
  is_code 3
  has_err "symbolic link"
  COLLCTL_DEBUG=INFO COLLCTL_DEBUG_FILE=$rig/output/rank.0.out run run -n 1 "${small[@]}"
  is_code 3
  has_err "symbolic link"
  [ "$(cat "$rig/victim")" = precious ] || fail "the victim was overwritten"
fi

if case_is "escape sequences from a host reach no terminal"; then
  rig_node 1 sh -c 'printf "#!/bin/sh\nprintf \"\\\\033]0;owned\\\\007\\\\033[2J\" >&2; exit 7\n" >/run/evil && chmod 755 /run/evil'
  rig_sshd_conf 1 'ForceCommand /run/evil'
  run run -H node01 "${small[@]}"
  is_code 4
  has_err '\x1b]0;owned\x07\x1b[2J'
  ! grep -q $'\e' "$err" || fail "they do"
  rig_sshd_reset 1
fi

if case_is "silent strangers where descriptors are few"; then
  : >"$out" >"$err"
  rig_node 1 bash -c "ulimit -n 256; exec env COLLCTL_TOKEN=a-token-of-the-tests timeout -k 5 240 '$collctl' run \
    --join node01:29400 --rank 0 --size 2 --start-timeout 200 ${small[*]}" </dev/null >>"$out" 2>>"$err" &
  joined+=($!)
  # They say when they have made more connections than rank 0 has descriptors, and go on until the pipe is closed.
  mkfifo "$rig/strangers"
  rig_node 2 timeout -k 5 240 python3 -c '
import os, select, socket, time
held, made = [], 0
while not select.select([0], [], [], 0)[0]:
    try:
        held.append(socket.create_connection(("node01", 29400), 1))
        made += 1
        if made == 400: os.write(1, b"enough\n")
    except OSError: time.sleep(0.01)
    if len(held) > 400: held = held[100:]
' <"$rig/strangers" >"$rig/enough" &
  strangers=$!
  exec {hold}>"$rig/strangers"
  await -of $strangers line "$rig/enough" enough
  rig_node 2 env COLLCTL_TOKEN=a-token-of-the-tests timeout -k 5 240 "$collctl" run --join node01:29400 --rank 1 --size 2 \
    --start-timeout 200 "${small[@]}" </dev/null >>"$out" 2>>"$err" &
  joined+=($!)
  ends_with "0 0 "
  exec {hold}>&-
  wait $strangers || fail "the strangers did not go on until the job's end"
  warnings=$(grep -c "WARN rejected" "$err")
  [ "$warnings" -le 64 ] || fail "$warnings warnings"
fi

[ $failures = 0 ] || { say "$failures failed"; exit 1; }
say "all passed"
