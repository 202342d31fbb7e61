#!/bin/bash
# One suite for the SSH clients (libssh2, the system's ssh, and the choice between them) against real
# servers: channel_probe opens channels to namespaced hosts. Usage: ssh_clients.sh PATH/channel_probe.
# Exit 1 when a case failed, 77 where namespaces cannot be made.
set -u
probe=$(realpath "$1")
. "$(dirname "$(realpath "$0")")/ssh_rig.sh"
. "$(dirname "$(realpath "$0")")/await.sh" "$probe"
. "$(dirname "$(realpath "$0")")/ssh_client_trouble.sh"
failures=0 case= client= rc=0

rig_up 8
out=$rig/out ssh=$rig/head/home/.ssh
cp "$ssh/known_hosts" "$rig/known_hosts.good"

say() { printf '%s\n' "$*"; }
fail() {
  say "FAILED: $client: $case: $*"
  cut -c1-400 "$out" | sed 's/^/    /' | head -12
  failures=$((failures + 1))
}
case_is() { case=$1; say "- $client: $case"; }
run() {
  "${rig_on_head[@]}" timeout -k 5 240 "$probe" --client "$client" "$@" >"$out" 2>&1 </dev/null
  rc=$?
}
is_code() { [ "$rc" = "$1" ] || fail "exit code $rc, expected $1"; }
has() { grep -aqF -- "$1" "$out" || fail "lacks '$1'"; }
hasnt() { ! grep -aqF -- "$1" "$out" || fail "has '$1'"; }
works() { is_code 0; hasnt "error:"; }
good_known_hosts() { cp "$rig/known_hosts.good" "$ssh/known_hosts"; }
print_of() { ssh-keygen -lf "$1" | awk '{print $2}'; }
# Which of the two `auto` takes is seen in some of the groups; the others need not be repeated for it.
all_clients() { for client in libssh2 openssh auto; do "$@"; done; client=; }
both_clients() { for client in libssh2 openssh; do "$@"; done; client=; }
our_own() { client=libssh2; "$@"; client=; }
# What libssh2 may lack by its age: an error with its words, or success. The others must work.
works_or_says() {
  if [ "$client" = libssh2 ] && [ "$rc" != 0 ]; then has "$1"; else works; fi
}

good() {
  case_is "a command, its streams and its exit code"
  run node01 'hostname; echo to-stderr >&2'
  works
  has "node01 out: node01"
  has "node01 err: to-stderr"
  run node01 'exit 7'
  has "phase=ended exit=7"
  run node01 'kill -9 $$'
  if [ "$client" = openssh ]; then has "phase=ended"; else has "phase=ended exit=137"; fi
  run node01 "printf '%s|' 'a b' \"c'd\" \$HOME"
  has "out: a b|c'd|$rig_home|"

  case_is "standard input stays open until it is closed"
  run --send 1000 node02 cat
  works
  has "bytes=1000 echo=same"

  case_is "eight hosts at once"
  run "$(IFS=,; echo "${rig_hosts[*]}")" hostname
  works
  [ "$(grep -ac 'phase=ended exit=0' "$out")" = 8 ] || fail "not all eight"

  case_is "a good host beside three bad ones"
  run --timeout 10 node01,no-such-host,$rig_network.77,node02 hostname
  is_code 1
  has "node01 phase=ended exit=0"
  has "node02 phase=ended exit=0"
  has "no-such-host phase=failed"
  has "$rig_network.77 phase=failed"

  case_is "IPv6, by name and by address"
  run node01-v6,"$(rig_address6 2)" 'echo ${SSH_CLIENT%% *}'
  works
  has "node01-v6 out: ${rig_network6}fe"

  case_is "another user"
  run --user tester node01 'id -un'
  works
  has "out: tester"
}

there_and_back() {
  case_is "50 MB there and back, unchanged"
  run --send 50000000 node01 cat
  works
  has "bytes=50000000 echo=same"
}

volume() {
  case_is "50 MB there, 50 MB back"
  run --send 50000000 node01 'wc -c'
  works
  has "out: 50000000"
  run node01 'head -c 50000000 /dev/zero'
  works
  has "bytes=50000000"
  there_and_back
}

keys() {
  case_is "a wrong key"
  run --user nobody node01 true
  is_code 1
  has "user nobody was refused by the host"
  has "id_ed25519"
  has "the host offers: publickey"
  has "[launch, host node01]"

  case_is "an encrypted key and nobody to ask"
  run --key "$rig_home/.ssh/locked" --config "$ssh/../locked_config" node01 true
  is_code 1
  has "locked"
  [ "$client" = openssh ] || has "is encrypted and there is no terminal to ask at"

  case_is "the same key in an agent"
  "${rig_on_head[@]}" env SSH_AUTH_SOCK="$rig/agent" timeout 180 "$probe" --client "$client" \
    --config "$ssh/../locked_config" node01 hostname >"$out" 2>&1
  rc=$?
  works
  has "out: node01"
}

silent_agent() {
  case="an agent that never answers" client=libssh2
  say "- $client: $case"
  "${rig_on_head[@]}" perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un($ARGV[0]));
    listen(S, 9); sleep 777' "$rig/silent_agent" &
  local listener=$!
  await file "$rig/silent_agent"
  "${rig_on_head[@]}" env SSH_AUTH_SOCK="$rig/silent_agent" timeout 60 "$probe" --client "$client" \
    node02,node03,node04 hostname >"$out" 2>&1
  rc=$?
  kill $listener
  wait $listener 2>/dev/null
  works
  client=
}

host_keys() {
  local shown known
  case_is "an unknown host"
  : >"$ssh/known_hosts"
  run node01 true
  is_code 1
  shown=$(print_of "$rig/node01/host_key.pub")
  has "host key is unknown: ED25519 key $shown"
  has "ssh-keyscan"
  [ -s "$ssh/known_hosts" ] && fail "known_hosts was written"

  case_is "accept-new for all, then strict"
  run --known-hosts accept-new "$(IFS=,; echo "${rig_hosts[*]}")" true
  works
  run node01,node08 true
  works
  [ "$(cut -d' ' -f1 "$ssh/known_hosts" | sort | uniq -d)" = "" ] || fail "names twice in known_hosts"

  case_is "a changed host key"
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

  case_is "checking switched off"
  run --known-hosts off node01 true
  works
  [ "$(wc -l <"$ssh/known_hosts")" = 1 ] || fail "known_hosts was written"

  case_is "a revoked host key"
  { echo "@revoked * $(cut -d' ' -f1,2 "$rig/node01/host_key.pub")"; cat "$rig/known_hosts.good"; } >"$ssh/known_hosts"
  run node01,node02 true
  is_code 1
  has "host key is revoked"
  has "node02 phase=ended exit=0"

  case_is "hashed names"
  good_known_hosts
  ssh-keygen -q -H -f "$ssh/known_hosts" >/dev/null 2>&1
  rm -f "$ssh/known_hosts.old"
  grep -q node01 "$ssh/known_hosts" && fail "the names are not hashed"
  run node01,node02 true
  works
  good_known_hosts
}

setup() {
  local i
  ssh-keygen -q -t ed25519 -N '' -f "$rig/other_key"
  ssh-keygen -q -t ed25519 -N secret -f "$ssh/locked"
  ssh-keygen -q -t rsa -b 3072 -N '' -f "$ssh/rsa"
  for i in 1 5; do
    cat "$ssh/locked.pub" "$ssh/rsa.pub" >>"$rig/$(rig_name $i)/home/.ssh/authorized_keys"
  done
  rm "$ssh/rsa.pub" # not needed beside the key
  printf 'Host *\n  IdentityFile ~/.ssh/locked\n' >"$ssh/../locked_config"
  printf 'Host far\n  HostName node01\n  ProxyJump middle\nHost middle\n  HostName node02\n' >"$ssh/../jump_config"
  printf 'Host node01\n  ProxyCommand ssh -W %%h:%%p node02\n' >"$ssh/../proxy_config"
  "${rig_on_head[@]}" ssh-agent -D -a "$rig/agent" >/dev/null 2>&1 &
  disown
  rig_node 1 "$probe" --listen 24 $'SSH-2.0-OpenSSH_9.2\r\n' >/dev/null 2>&1 &
  rig_node 1 "$probe" --listen 25 $'220 mail ESMTP\r\n' >/dev/null 2>&1 &
  await file "$rig/agent"
  printf '#!/bin/sh\necho secret\n' >"$rig/askpass"
  chmod 700 "$rig/askpass"
  "${rig_on_head[@]}" env SSH_AUTH_SOCK="$rig/agent" SSH_ASKPASS="$rig/askpass" SSH_ASKPASS_REQUIRE=force \
    ssh-add -q "$ssh/locked" </dev/null || say "ssh-add failed"
  rig_sshd_conf 4 "Port 22" "Port 2222"
  echo "[node04]:2222 $(cut -d' ' -f1,2 "$rig/node04/host_key.pub")" >>"$rig/known_hosts.good"
  good_known_hosts
}

setup
both_clients good
both_clients keys
silent_agent
both_clients host_keys
our_own ways
client=openssh one_jump
all_clients configuration
all_clients without_ssh
for i in 6 7; do rig_sshd_conf $i "PubkeyAuthentication no" "PasswordAuthentication yes"; done
asking

case_algorithms() { case_is "$1"; algorithms "$2"; }
rig_sshd_conf 5 "Ciphers aes256-gcm@openssh.com,chacha20-poly1305@openssh.com"
all_clients case_algorithms "a server with gcm and chacha20 only" "no common cipher; ours: "
client=auto
case_is "the same server and no ssh on this machine"
"${rig_on_head[@]}" env PATH=/nonexistent "$probe" --client auto node05 hostname >"$out" 2>&1 </dev/null
rc=$?
[ "$rc" = 0 ] || has "install openssh-client"
rig_sshd_reset 5
rig_sshd_conf 5 "MACs hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com" "Ciphers aes256-ctr"
all_clients case_algorithms "a server with -etm MACs only" "no common MAC; ours: "
rig_sshd_reset 5
rig_sshd_conf 5 "KexAlgorithms sntrup761x25519-sha512@openssh.com"
all_clients case_algorithms "a post-quantum server" "no common key exchange method; ours: "
rig_sshd_reset 5
ssh-keygen -q -t rsa -b 3072 -N '' -f "$rig/node05/rsa_key"
sed -i 's/host_key$/rsa_key/' "$rig/node05/sshd_config.first"
echo "node05 $(cut -d' ' -f1,2 "$rig/node05/rsa_key.pub")" >"$ssh/known_hosts"
rig_sshd_reset 5
all_clients case_algorithms "a server with an RSA host key only" "no common host key type; ours: "
sed -i 's/rsa_key$/host_key/' "$rig/node05/sshd_config.first"
rig_sshd_reset 5
good_known_hosts
rsa_user_key() {
  case_is "an RSA user key"
  run --key "$ssh/rsa" --config none --user tester node05 hostname
  works_or_says "signs with RSA and SHA-1 only"
}
cp "$rig/node05/home/.ssh/authorized_keys" "$rig/keys.all"
grep ssh-rsa "$rig/keys.all" >"$rig/node05/home/.ssh/authorized_keys"
all_clients rsa_user_key
cp "$rig/keys.all" "$rig/node05/home/.ssh/authorized_keys"

# Only the authority is known that has certified the host's key.
authority() {
  case_is "a host that only an authority vouches for"
  run node05 hostname
  if [ "$client" = libssh2 ]; then
    is_code 1
    has "only by certificates of the authority at $rig_home/.ssh/known_hosts:1, which libssh2 cannot check"
    has "use --ssh-client openssh"
  else
    works
    has "node05 out: node05"
  fi
}
ssh-keygen -q -t ed25519 -N '' -f "$rig/ca"
ssh-keygen -q -s "$rig/ca" -I node05 -h -n node05 -V -1h:+1h "$rig/node05/host_key.pub"
rig_sshd_conf 5 "HostCertificate $rig/node05/host_key-cert.pub"
echo "@cert-authority node0* $(cut -d' ' -f1,2 "$rig/ca.pub")" >"$ssh/known_hosts"
all_clients authority
rig_sshd_reset 5
good_known_hosts

our_own volume
client=openssh there_and_back
rekeying() {
  case_is "keys are exchanged anew while data flows"
  run --send 20000000 node05 cat
  works
  has "bytes=20000000 echo=same"
}
rig_sshd_conf 5 "RekeyLimit 3M"
our_own rekeying
rig_sshd_reset 5
both_clients down
cable

say "$failures failures"
[ "$failures" = 0 ]
