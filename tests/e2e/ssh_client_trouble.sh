# Sourced by ssh_clients.sh: cases of hosts that are down, ways there, questions, and configurations of either end.

down() {
  case_is "a name that does not resolve"
  run no-such-host true
  is_code 1
  has "does not resolve"

  case_is "no route"
  run --timeout 8 $rig_network.77 true
  is_code 1
  has "no route to host"

  case_is "refused"
  run --port 23 node01 true
  is_code 1
  has "$rig_network.1:23: connection refused"

  case_is "dropped packets"
  rig_blackhole 1 on
  run --timeout 2 node01 true
  rig_blackhole 1 off
  is_code 1
  has "no answer to TCP connect ($rig_network.1:22) within 2 s"

  case_is "accepts and stays silent"
  rig_node 1 kill -STOP "$(rig_sshd_pid 1)"
  run --timeout 2 node01 true
  rig_node 1 kill -CONT "$(rig_sshd_pid 1)"
  is_code 1
  has "no SSH banner ($rig_network.1:22) within 2 s"

  case_is "a banner, then silence"
  run --timeout 2 --port 24 node01 true
  is_code 1
  has "within 2 s"
  has "key exchange"

  case_is "something that does not speak SSH"
  run --timeout 2 --port 25 node01 true
  is_code 1
  has "node01 phase=failed"

  case_is "sshd killed while the command runs"
  { "$await_program" file "$rig/up.$client" && rig_sshd_kill 2; } &
  run --hold --limit 200 node02 "touch $rig/up.$client; sleep 777"
  wait $! || fail "the command did not run"
  rig_sshd_start 2
  is_code 1
  has "phase=ended"
  has "the connection was lost"
  has "[lost, host node02]"
}

# All clients at once: it takes its time to believe that a host is gone. Beside them one is stopped for longer than a
# host may be silent, and believes nothing.
cable() {
  local which pids=() stopped
  case="the cable pulled while the command runs"
  for which in libssh2 openssh auto; do
    say "- $which: $case"
    "${rig_on_head[@]}" timeout 240 "$probe" --client $which --hold --limit 200 node02 \
      "echo up; touch $rig/up.$which; sleep 777" \
      >"$rig/cable.$which" 2>&1 </dev/null &
    pids+=($!)
  done
  "${rig_on_head[@]}" "$probe" --client libssh2 --hold --limit 200 node01 \
    "echo up; touch $rig/up.stopped; until [ -e $rig/on ]; do sleep 0.1; done" \
    >"$rig/cable.stopped" 2>&1 </dev/null &
  stopped=$!
  await file "$rig/up.stopped"
  kill -STOP $stopped
  for which in libssh2 openssh auto; do await file "$rig/up.$which"; done
  rig_link 2 down
  sleep 16 # time is what is tested: a client that is stopped for longer than its host may be silent
  kill -CONT $stopped
  touch "$rig/on"
  wait "${pids[@]}"
  rig_link 2 up
  rig_sshd_kill 2
  rig_sshd_start 2
  for client in libssh2 openssh auto; do
    out=$rig/cable.$client
    has "out: up"
    has "the connection was lost"
    has "[lost, host node02]"
  done
  case="a client that was stopped believes nothing of its host"
  out=$rig/cable.stopped
  wait $stopped
  rc=$?
  works
  has "out: up"
  out=$rig/out
}

one_jump() {
  case_is "one jump host"
  run --jump node02 node01 'echo ${SSH_CLIENT%% *}'
  works
  has "out: $rig_network.2"
}

ways() {
  one_jump

  case_is "two jump hosts, and much data"
  run --jump tester@node02,node03:22 --send 5000000 node01 cat
  works
  has "bytes=5000000 echo=same"

  case_is "a jump host from the configuration, with an alias"
  run --config "$ssh/../jump_config" far 'hostname; echo ${SSH_CLIENT%% *}'
  works
  has "far out: node01"
  has "$rig_network.2"

  case_is "a jump host that cannot reach the host"
  run --jump node02 --timeout 6 --port 23 node01 true
  is_code 1
  has "node01 phase=failed"
  [ "$client" = openssh ] || has "node02 cannot reach node01:23"

  case_is "an unknown jump host"
  grep -v '^node02,' "$rig/known_hosts.good" >"$ssh/known_hosts"
  run --jump node02 node01 true
  is_code 1
  has "[launch, host node01]"
  has "host key"
  good_known_hosts

  case_is "a ProxyCommand"
  run --config "$ssh/../proxy_config" node01 hostname
  works_or_says "ProxyCommand"

  case_is "another port"
  run --port 2222 node04 hostname
  works
  has "out: node04"
}

# Types $1 whenever it is asked for it.
type_in() {
  local secret=$1 asks=1 asked
  shift
  mkfifo "$rig/keys"
  : >"$out"
  "${rig_on_head[@]}" timeout 240 script -qec "$probe --client libssh2 --ask $*" /dev/null <"$rig/keys" >"$out" 2>&1 &
  asked=$!
  exec 8<>"$rig/keys"
  while "$await_program" -of $asked line "$out" '[Pp]ass(word|phrase).*: ' $asks >/dev/null; do
    echo "$secret" >&8
    asks=$((asks + 1))
  done
  exec 8>&-
  wait $asked
  rc=$?
  rm "$rig/keys"
}

asking() {
  client=libssh2
  case_is "a password for two hosts, asked once"
  type_in "$rig_password" --config none --user tester --limit 100 node06,node07 hostname
  works
  has "node06 out: node06"
  has "node07 out: node07"
  has "password"
  [ "$(grep -ac "password: " "$out")" = 1 ] || fail "not asked once"

  case_is "a wrong password"
  type_in wrong --config none --user tester --limit 100 node06 hostname
  is_code 1
  has "tester was refused by the host"
  has "password"

  case_is "keyboard-interactive for two hosts, asked once"
  for i in 6 7; do
    rig_sshd_conf $i "UsePAM yes" "KbdInteractiveAuthentication yes" "PasswordAuthentication no"
  done
  type_in "$rig_password" --config none --limit 100 node06,node07 hostname
  works
  has "node06 out: node06"
  has "node07 out: node07"
  has "keyboard-interactive"
  [ "$(grep -ac "Password: " "$out")" = 1 ] || fail "not asked once"
  for i in 6 7; do
    rig_sshd_reset $i
    rig_sshd_conf $i "PubkeyAuthentication no" "PasswordAuthentication yes"
  done

  case_is "a passphrase"
  type_in secret --key "$rig_home/.ssh/locked" --config none --limit 100 node01 hostname
  works
  has "out: node01"

  case_is "nobody at a terminal"
  run --ask --config none --user tester --limit 100 node06 hostname
  is_code 1
  has "tester was refused by the host"
  client=
}

without_ssh() {
  case_is "no ssh on this machine"
  "${rig_on_head[@]}" env PATH=/nonexistent "$probe" --client "$client" --config "$ssh/../jump_config" far,node03 \
    'echo ${SSH_CLIENT%% *}' >"$out" 2>&1 </dev/null
  rc=$?
  is_code 1
  has "install openssh-client"
  case_is "no ssh on this machine, and no configuration"
  "${rig_on_head[@]}" env PATH=/nonexistent "$probe" --client "$client" --config none node03 \
    'echo ${SSH_CLIENT%% *}' >"$out" 2>&1 </dev/null
  rc=$?
  if [ "$client" = openssh ]; then has "install openssh-client"; else works; fi
  case_is "no ssh on this machine, and a configuration of the user's"
  cp "$ssh/../jump_config" "$ssh/config"
  "${rig_on_head[@]}" env PATH=/nonexistent "$probe" --client "$client" far true >"$out" 2>&1 </dev/null
  rc=$?
  rm "$ssh/config"
  is_code 1
  has "install openssh-client"
  [ "$client" = openssh ] || has ".ssh/config was not read, because ssh is not installed here"
}

configuration() {
  case_is "a configuration that needs ssh itself"
  printf 'Match host far exec "true"\n  HostName node03\n' >"$ssh/../match_config"
  run --config "$ssh/../match_config" far hostname
  works
  has "far out: node03"

  case_is "mistakes in the configuration"
  printf 'Host far\n  Port nine\n' >"$ssh/../bad_config"
  run --config "$ssh/../bad_config" far hostname
  is_code 1
  has "[usage, host far]"
  run --config "$rig/no-such-file" far hostname
  is_code 1
  has "[usage, host far]"
}

# $1: what libssh2 says when it cannot.
algorithms() {
  run node05 hostname
  works_or_says "$1"
  [ "$client" != auto ] || has "node05 out: node05"
}
