#!/bin/bash
# The SSH clients (libssh2, the system's ssh, and the choice between them) against real servers: channel_probe opens channels
# to namespaced hosts. What is the same for all clients, or read from a log, is for tests/unit/launcher/ssh; names, users, ports
# and login shells of hosts are for tests/field. Usage: ssh_clients.sh PATH/channel_probe.
# Exit 1 when a case failed, 77 where namespaces cannot be made.
set -u
probe=$(realpath "$1")
. "$(dirname "$(realpath "$0")")/ssh_rig.sh"
. "$(dirname "$(realpath "$0")")/await.sh" "$probe"
failures=0 case= client= rc=0

rig_up 6
out=$rig/out ssh=$rig/head/home/.ssh
all=$(IFS=,; echo "${rig_hosts[*]}")
cp "$ssh/known_hosts" "$rig/known_hosts.good"

say() { printf '%s\n' "$*"; }
fail() {
  say "FAILED: $client: $case: $*"
  cut -c1-400 "$out" | sed 's/^/    /' | head -12
  failures=$((failures + 1))
}
case_is() { case=$1; say "- ${client:+$client: }$case"; }
# A host that answers has its time, whatever else this machine does.
probe_with() { # variables of the environment, --, then the probe's arguments
  local variables=()
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  "${rig_on_head[@]}" timeout -k 5 240 env "${variables[@]}" "$probe" --client "$client" --timeout 60 --limit 200 "$@" >"$out" 2>&1 </dev/null
  rc=$?
}
run() { probe_with -- "$@"; }
without_ssh() { probe_with PATH=/nonexistent -- "$@"; }
is_code() { [ "$rc" = "$1" ] || fail "exit code $rc, expected $1"; }
has() { grep -aqF -- "$1" "$out" || fail "lacks '$1'"; }
hasnt() { ! grep -aqF -- "$1" "$out" || fail "has '$1'"; }
says_of() { grep -aqE -- "^$1 .*$2" "$out" || fail "does not say of $1: $2"; }
works() { is_code 0; hasnt "error:"; }
good_known_hosts() { cp "$rig/known_hosts.good" "$ssh/known_hosts"; }
print_of() { ssh-keygen -lf "$1" | awk '{print $2}'; }
each_client() { for client in libssh2 openssh; do "$@"; done; client=; }
# What libssh2 may lack by its age: an error with its words, or success. The others must work.
works_or_says() {
  if [ "$client" = libssh2 ] && [ "$rc" != 0 ]; then has "$1"; else works; fi
}

commands() {
  case_is "a command: its streams, words, signal and exit code; over a jump host"
  run node01 'hostname; echo to-stderr >&2; exit 7'
  has "node01 out: node01"
  has "node01 err: to-stderr"
  has "phase=ended exit=7"
  run node01 'kill -9 $$'
  if [ "$client" = openssh ]; then has "phase=ended"; else has "phase=ended exit=137"; fi
  run --jump node02 node01 "printf '%s|' 'a b' \"c'd\" \$HOME \${SSH_CLIENT%% *}"
  works
  has "out: a b|c'd|$rig_home|$rig_network.2|"

  case_is "all hosts at once, and beside them hosts that are down, each with its cause"
  rig_blackhole 5 on
  rig_node 6 kill -STOP "$(rig_sshd_pid 6)"
  run --timeout 8 "$all,no-such-host,$rig_network.77" hostname
  rig_blackhole 5 off
  rig_node 6 kill -CONT "$(rig_sshd_pid 6)"
  is_code 1
  [ "$(grep -ac 'phase=ended exit=0' "$out")" = 4 ] || fail "not all four"
  says_of no-such-host "phase=failed"
  has "does not resolve"
  says_of $rig_network.77 "phase=failed"
  has "no route to host"
  has "no answer to TCP connect ($rig_network.5:22) within 8 s"
  has "no SSH banner ($rig_network.6:22) within 8 s"
  run --port 23 node01 true
  is_code 1
  has "$rig_network.1:23: connection refused"

  case_is "a banner and then silence; something that does not speak SSH"
  run --timeout 2 --port 24 node01 true
  is_code 1
  has "within 2 s"
  has "key exchange"
  run --timeout 2 --port 25 node01 true
  is_code 1
  has "node01 phase=failed"

  case_is "sshd killed while the command runs"
  { "$await_program" file "$rig/up.$client" && rig_sshd_kill 2; } &
  run --hold node02 "touch $rig/up.$client; sleep 777"
  wait $! || fail "the command did not run"
  rm "$rig/up.$client"
  rig_sshd_start 2
  is_code 1
  has "phase=ended"
  has "the connection was lost"
  has "[lost, host node02]"
}

keys() {
  case_is "keys: a wrong one, an encrypted one and nobody to ask, the same in an agent"
  run --user nobody node01 true
  is_code 1
  has "user nobody was refused by the host"
  has "id_ed25519"
  has "the host offers: publickey"
  has "[launch, host node01]"
  run --key "$rig_home/.ssh/locked" --config "$ssh/../locked_config" node01 true
  is_code 1
  has "locked"
  [ "$client" = openssh ] || has "is encrypted and there is no terminal to ask at"
  probe_with "SSH_AUTH_SOCK=$rig/agent" -- --config "$ssh/../locked_config" node01 hostname
  works
  has "out: node01"
}

host_keys() {
  local shown known
  case_is "host keys: unknown, then accepted; changed, also then; revoked, beside a good one"
  : >"$ssh/known_hosts"
  run node01 true
  is_code 1
  shown=$(print_of "$rig/node01/host_key.pub")
  has "host key is unknown: ED25519 key $shown"
  has "ssh-keyscan"
  [ -s "$ssh/known_hosts" ] && fail "known_hosts was written"
  run --known-hosts accept-new "$all" true
  works
  run node01,node06 true
  works
  [ "$(cut -d' ' -f1 "$ssh/known_hosts" | sort | uniq -d)" = "" ] || fail "names twice in known_hosts"
  echo "node01 $(cut -d' ' -f1,2 "$rig/other_key.pub")" >"$ssh/known_hosts"
  known=$(print_of "$rig/other_key.pub")
  run node01 true
  is_code 1
  has "host key has changed"
  has "$shown"
  has "$known"
  has "known_hosts:1"
  run --known-hosts accept-new node01 true
  is_code 1
  has "host key has changed"
  run --known-hosts off node01 true
  works
  [ "$(wc -l <"$ssh/known_hosts")" = 1 ] || fail "known_hosts was written"
  { echo "@revoked * $(cut -d' ' -f1,2 "$rig/node01/host_key.pub")"; cat "$rig/known_hosts.good"; } >"$ssh/known_hosts"
  run node01,node02 true
  is_code 1
  has "host key is revoked"
  has "node02 phase=ended exit=0"
  good_known_hosts
}

configuration() {
  case_is "a configuration that needs ssh itself, mistakes in one, none"
  run --config "$ssh/../match_config" far hostname
  works
  has "far out: node03"
  for file in "$ssh/../bad_config" "$rig/no-such-file"; do
    run --config "$file" far hostname
    is_code 1
    has "[usage, host far]"
  done
  without_ssh --config "$ssh/../jump_config" far,node03 'echo ${SSH_CLIENT%% *}'
  is_code 1
  has "install openssh-client"
  without_ssh --config none node03 'echo ${SSH_CLIENT%% *}'
  if [ "$client" = openssh ]; then has "install openssh-client"; else works; fi
  cp "$ssh/../jump_config" "$ssh/config"
  without_ssh far true
  rm "$ssh/config"
  is_code 1
  has "install openssh-client"
  [ "$client" = openssh ] || has ".ssh/config was not read, because ssh is not installed here"
}

much_data() {
  case_is "10 MB there and back, unchanged, while keys are exchanged anew"
  run --send 10000000 node03 cat
  works
  has "bytes=10000000 echo=same"
  run --send 10000000 node03 'wc -c'
  works
  has "out: 10000000"
  run node03 'head -c 10000000 /dev/zero'
  works
  has "bytes=10000000"
}

setup() {
  local i
  ssh-keygen -q -t ed25519 -N '' -f "$rig/other_key"
  ssh-keygen -q -t ed25519 -N secret -f "$ssh/locked"
  ssh-keygen -q -t rsa -b 2048 -N '' -f "$ssh/rsa"
  for i in 1 3; do
    cat "$ssh/locked.pub" "$ssh/rsa.pub" >>"$rig/$(rig_name $i)/home/.ssh/authorized_keys"
  done
  rm "$ssh/rsa.pub" # not needed beside the key
  printf 'Host *\n  IdentityFile ~/.ssh/locked\n' >"$ssh/../locked_config"
  printf 'Host far\n  HostName node01\n  ProxyJump middle\nHost middle\n  HostName node02\n' >"$ssh/../jump_config"
  printf 'Host node01\n  ProxyCommand ssh -W %%h:%%p node02\n' >"$ssh/../proxy_config"
  printf 'Match host far exec "true"\n  HostName node03\n' >"$ssh/../match_config"
  printf 'Host far\n  Port nine\n' >"$ssh/../bad_config"
  "${rig_on_head[@]}" ssh-agent -D -a "$rig/agent" >/dev/null 2>&1 &
  disown
  rig_node 1 "$probe" --listen 24 $'SSH-2.0-OpenSSH_9.2\r\n' >/dev/null 2>&1 &
  rig_node 1 "$probe" --listen 25 $'220 mail ESMTP\r\n' >/dev/null 2>&1 &
  await file "$rig/agent"
  printf '#!/bin/sh\necho secret\n' >"$rig/askpass"
  chmod 700 "$rig/askpass"
  "${rig_on_head[@]}" env SSH_AUTH_SOCK="$rig/agent" SSH_ASKPASS="$rig/askpass" SSH_ASKPASS_REQUIRE=force \
    ssh-add -q "$ssh/locked" </dev/null || say "ssh-add failed"
}

setup
each_client commands
each_client keys
each_client host_keys
each_client configuration
rig_sshd_conf 3 "RekeyLimit 2M"
each_client much_data
rig_sshd_reset 3

client=libssh2
case_is "an agent that never answers"
"${rig_on_head[@]}" perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un($ARGV[0]));
  listen(S, 9); sleep 777' "$rig/silent_agent" &
listener=$!
await file "$rig/silent_agent"
probe_with "SSH_AUTH_SOCK=$rig/silent_agent" -- --timeout 10 node02,node03,node06 hostname
kill $listener
wait $listener 2>/dev/null
works

case_is "jump hosts: two and much data, by an alias of the configuration, one that cannot reach the host, one that is unknown"
run --jump tester@node02,node03:22 --send 5000000 node01 cat
works
has "bytes=5000000 echo=same"
run --config "$ssh/../jump_config" far 'hostname; echo ${SSH_CLIENT%% *}'
works
has "far out: node01"
has "$rig_network.2"
run --jump node02 --timeout 6 --port 23 node01 true
is_code 1
has "node01 phase=failed"
has "node02 cannot reach node01:23"
grep -v '^node02,' "$rig/known_hosts.good" >"$ssh/known_hosts"
run --jump node02 node01 true
is_code 1
has "[launch, host node01]"
has "host key"
good_known_hosts
run --config "$ssh/../proxy_config" node01 hostname
works_or_says "ProxyCommand"

# Types $1 whenever it is asked for it.
type_in() {
  local secret=$1 asks=1 asked
  shift
  mkfifo "$rig/keys"
  : >"$out"
  "${rig_on_head[@]}" timeout 240 script -qec "$probe --client libssh2 --ask --config none --timeout 60 --limit 200 $* hostname" /dev/null \
    <"$rig/keys" >"$out" 2>&1 &
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
asked_once() { # $1: what for
  works
  has "node04 out: node04"
  has "node05 out: node05"
  [ "$(grep -ac "$1: " "$out")" = 1 ] || fail "not asked once for the $1"
}
case_is "a password and keyboard-interactive are asked for once for two hosts, a passphrase for its key"
for i in 4 5; do rig_sshd_conf $i "PubkeyAuthentication no" "PasswordAuthentication yes"; done
type_in "$rig_password" --user tester node04,node05
asked_once password
for i in 4 5; do rig_sshd_conf $i "UsePAM yes" "KbdInteractiveAuthentication yes" "PasswordAuthentication no"; done
type_in "$rig_password" node04,node05
asked_once Password
has "keyboard-interactive"
for i in 4 5; do
  rig_sshd_reset $i
  rig_sshd_conf $i "PubkeyAuthentication no" "PasswordAuthentication yes"
done
type_in secret --key "$rig_home/.ssh/locked" node01
works
has "out: node01"
case_is "a wrong password, and nobody at the terminal"
type_in wrong --user tester node04
is_code 1
has "tester was refused by the host"
has "password"
run --ask --config none --user tester node04 hostname
is_code 1
has "tester was refused by the host"

# libssh2 may lack what a server wants, and says it; then the choice falls on ssh, which has it.
wants() { # what sshd is told; what libssh2 says that it lacks; more of the probe's arguments
  for client in libssh2 auto; do
    run "${@:3}" node06 hostname
    works_or_says "$2"
    [ "$client" = libssh2 ] || has "node06 out: node06"
  done
}
client=
case_is "servers with few algorithms: libssh2 says what it lacks, the choice between clients falls on one that has it"
rig_sshd_conf 6 "Ciphers aes256-gcm@openssh.com,chacha20-poly1305@openssh.com"
wants gcm "no common cipher; ours: "
client=auto without_ssh node06 hostname
[ "$rc" = 0 ] || has "install openssh-client"
rig_sshd_reset 6
rig_sshd_conf 6 "MACs hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com" "Ciphers aes256-ctr"
wants etm "no common MAC; ours: "
rig_sshd_reset 6
rig_sshd_conf 6 "KexAlgorithms sntrup761x25519-sha512@openssh.com"
wants post-quantum "no common key exchange method; ours: "
ssh-keygen -q -t rsa -b 2048 -N '' -f "$rig/node06/rsa_key"
sed -i 's/host_key$/rsa_key/' "$rig/node06/sshd_config.first"
echo "node06 $(cut -d' ' -f1,2 "$rig/node06/rsa_key.pub")" >"$ssh/known_hosts"
rig_sshd_reset 6
wants rsa "no common host key type; ours: "
sed -i 's/rsa_key$/host_key/' "$rig/node06/sshd_config.first"
rig_sshd_reset 6
good_known_hosts
cp "$rig/node03/home/.ssh/authorized_keys" "$rig/keys.all"
grep ssh-rsa "$rig/keys.all" >"$rig/node06/home/.ssh/authorized_keys"
wants rsa-user "signs with RSA and SHA-1 only" --key "$ssh/rsa" --config none --user tester
cp "$rig/keys.all" "$rig/node06/home/.ssh/authorized_keys"

client=
case_is "a host that only an authority vouches for"
ssh-keygen -q -t ed25519 -N '' -f "$rig/ca"
ssh-keygen -q -s "$rig/ca" -I node06 -h -n node06 -V -1h:+1h "$rig/node06/host_key.pub"
rig_sshd_conf 6 "HostCertificate $rig/node06/host_key-cert.pub"
echo "@cert-authority node0* $(cut -d' ' -f1,2 "$rig/ca.pub")" >"$ssh/known_hosts"
client=libssh2 run node06 hostname
is_code 1
has "only by certificates of the authority at $rig_home/.ssh/known_hosts:1, which libssh2 cannot check"
has "use --ssh-client openssh"
client=auto run node06 hostname
works
has "node06 out: node06"
rig_sshd_reset 6
good_known_hosts

# Both clients at once: it takes its time to believe that a host is gone. Beside them one is stopped for longer than a host may
# be silent, and believes nothing.
case_is "the cable pulled while the command runs; a client that was stopped meanwhile believes nothing of its host"
pids=()
hold() { # client, node, until when: the probe's words are in $rig/hold.NAME
  "${rig_on_head[@]}" timeout 240 "$probe" --client "$2" --hold --limit 200 "$3" "echo up; touch $rig/up.$1; $4" >"$rig/hold.$1" 2>&1 </dev/null &
  pids+=($!)
}
for client in libssh2 openssh; do hold $client $client node02 "sleep 777"; done
"${rig_on_head[@]}" "$probe" --client libssh2 --hold --limit 200 node01 \
  "echo up; touch $rig/up.stopped; until [ -e $rig/on ]; do sleep 0.1; done" >"$rig/hold.stopped" 2>&1 </dev/null &
stopped=$!
await file "$rig/up.stopped" -- file "$rig/up.libssh2" -- file "$rig/up.openssh"
kill -STOP $stopped
rig_link 2 down
sleep 16 # time is what is tested: a client that is stopped for longer than its host may be silent
kill -CONT $stopped
touch "$rig/on"
wait "${pids[@]}"
for client in libssh2 openssh; do
  out=$rig/hold.$client
  has "out: up"
  has "the connection was lost"
  has "[lost, host node02]"
done
client=libssh2 out=$rig/hold.stopped
wait $stopped
rc=$?
works
has "out: up"

say "$failures failures"
[ "$failures" = 0 ]
