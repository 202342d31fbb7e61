# A cluster for tests on one machine, to be sourced by bash scripts: hosts node01, node02, ... and a host
# "head" for the launcher. Each is a network, UTS, mount and (but for head) PID namespace with its own sshd,
# host key, /dev/shm and home; all are ports of one bridge. Names resolve by /etc/hosts only; nothing
# reaches the machine's network.
#
#   rig_up N                 makes them (root needed; prints why and exits 77 where it cannot)
#   rig_down                 ends all and removes everything; rig_up makes it the EXIT trap
#   rig_head CMD...          runs a command on head. To know its pid: "${rig_on_head[@]}" CMD... & pid=$!
#   rig_node I CMD...        runs a command on node I (1..N), as root
#   rig_sshd_conf I LINE...  puts lines before node I's sshd_config (the first value counts) and restarts sshd
#   rig_sshd_reset I         back to the first configuration
#   rig_sshd_stop I, _start  the listening sshd; connections stay. rig_sshd_kill I: with all its connections
#   rig_sshd_pid I           pid on the node of the listening sshd
#   rig_link I up|down       plugs node I's cable
#   rig_blackhole I on|off   node I answers head no more: packets are dropped, nothing is refused
#   rig_processes I          "pid command" of what runs on node I besides the rig's own and its sshds
#   rig_address I, rig_address6 I, rig_name I
# Variables: rig (the folder), rig_hosts (names), rig_home (HOME on every host; seen from outside it is
# $rig/head/home and $rig/node01/home). Users on each node: root and tester (uid 4711), password
# "$rig_password", both with head's key authorised. sshd's log: $rig/node01/sshd.log.

export CUDA_VISIBLE_DEVICES=-1  # CPU ranks, on machines with GPUs as well

rig_network=10.83.0
rig_network6=fd83:c011::
rig_password=open-sesame
rig= rig_hosts=() rig_pids=() rig_head_pid= rig_count=0

rig_name() { printf 'node%02d' "$1"; }
rig_address() { echo "$rig_network.$1"; }
rig_address6() { printf '%s%x\n' "$rig_network6" "$1"; }

rig_nap() { read -rt 0.01 -u "$rig_silent"; } # without a process

rig_skip() { echo "skipped: $*"; exit 77; }

rig_check() {
  local tool
  [ "$(id -u)" = 0 ] || rig_skip "hosts in network namespaces need root"
  for tool in ip unshare nsenter setpriv ssh-keygen openssl ps /usr/sbin/sshd; do
    command -v "$tool" >/dev/null || rig_skip "$tool is not installed"
  done
  unshare --net --uts --mount --pid --fork \
    sh -c 'mount --make-rprivate / && mount -t proc proc /proc && mount -t tmpfs none /dev/shm &&
           ip link add rig0 type bridge && ip link add rig1 type veth peer name rig2' 2>/dev/null ||
    rig_skip "this machine does not allow network, mount and PID namespaces, bridges and veth"
}

# Runs first on every host, in its namespaces: mounts, then waits for the network, then starts sshd.
rig_write_init() {
  cat >"$rig/init" <<'INIT'
set -eu
rig=$1 name=$2 dir=$1/$2
exec 3>"$rig/ready" 4<>"$dir/go" 2>>"$dir/init.log"
mount --make-rprivate /
for file in hosts nsswitch.conf passwd shadow; do
  [ ! -e /etc/$file ] || mount --bind "$rig/etc/$file" /etc/$file
done
mount --bind "$dir/home" "$rig/home"
[ ! -d /dev/shm ] || mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mkdir -m 755 /run/sshd
hostname "$name"
[ "$name" = head ] || mount -t proc proc /proc
echo "$name" >&3
read -r go <&4
ip -batch "$dir/network" >&2
if [ "$name" != head ]; then
  /usr/sbin/sshd -f "$dir/sshd_config" -E "$dir/sshd.log"
  # It goes to the background before it listens, and writes its pid after.
  for _ in {1..2000}; do [ -s "$dir/sshd.pid" ] && break; read -rt 0.01 -u 4 || true; done
fi
echo "$name" >&3
exec 3>&- 4>&-
# Bash reaps whatever comes to this process while it waits.
sleep infinity &
while kill -0 $! 2>/dev/null; do wait || true; done
INIT
}

rig_write_etc() {
  local i hash home=$rig/home
  mkdir -p "$rig/etc" "$home"
  {
    echo "127.0.0.1 localhost"
    echo "$rig_network.254 head"
    for ((i = 1; i <= rig_count; i++)); do
      echo "$(rig_address $i) $(rig_name $i)"
      echo "$(rig_address6 $i) $(rig_name $i)-v6"
    done
  } >"$rig/etc/hosts"
  echo "hosts: files" >"$rig/etc/nsswitch.conf"
  hash=$(openssl passwd -6 "$rig_password")
  { echo "root:x:0:0:root:$home:/bin/bash"; grep -v '^root:' /etc/passwd
    echo "tester:x:4711:65534::$home:/bin/bash"; } >"$rig/etc/passwd"
  { echo "root:$hash:19000:0:99999:7:::"; grep -v '^root:' /etc/shadow
    echo "tester:$hash:19000:0:99999:7:::"; } >"$rig/etc/shadow"
  chmod 600 "$rig/etc/shadow"
}

rig_write_node() {
  local i=$1 name dir
  name=$(rig_name "$i") dir=$rig/$(rig_name "$i")
  mkdir -p "$dir/home/.ssh"
  chmod 1777 "$dir/home"
  mkfifo "$dir/go"
  ssh-keygen -q -t ed25519 -N '' -C "$name" -f "$dir/host_key"
  cat >"$dir/network" <<NET
link set lo up
address add $(rig_address "$i")/24 dev eth0
address add $(rig_address6 "$i")/64 dev eth0 nodad
link set eth0 up
NET
  cat >"$dir/sshd_config.first" <<CONF
HostKey $dir/host_key
PidFile $dir/sshd.pid
AuthorizedKeysFile .ssh/authorized_keys
StrictModes no
UsePAM no
UseDNS no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 500:30:1000
MaxSessions 100
LogLevel VERBOSE
PrintMotd no
PrintLastLog no
SetEnv CUDA_VISIBLE_DEVICES=-1
Subsystem sftp internal-sftp
CONF
  cp "$dir/sshd_config.first" "$dir/sshd_config"
}

# setpriv: even a script that is killed leaves no host behind.
rig_start() {
  local name=$1
  shift
  setpriv --pdeathsig KILL unshare --net --uts --mount "$@" bash "$rig/init" "$rig" "$name" \
    </dev/null >>"$rig/$name/init.log" 2>&1 &
  disown
}

# Waits until $1 hosts have said that they are ready.
rig_await() {
  local left=$1 name
  while ((left > 0)); do
    if ! read -r -t 60 -u "$rig_ready" name; then
      echo "rig: $left of $1 hosts did not come up:"
      tail -n 5 "$rig"/*/init.log "$rig"/*/sshd.log 2>/dev/null
      exit 1
    fi
    left=$((left - 1))
  done
}

rig_up() {
  local i name jobs=() links
  rig_count=$1
  rig_check
  rig=$(mktemp -d /tmp/collctl-rig.XXXXXX)
  trap rig_down EXIT
  chmod 755 "$rig"
  rig_home=$rig/home
  rig_write_etc
  rig_write_init
  mkfifo "$rig/ready" "$rig/silent"
  exec {rig_ready}<>"$rig/ready" {rig_silent}<>"$rig/silent"
  mkdir -p "$rig/head/home/.ssh"
  chmod 700 "$rig/head/home/.ssh"
  mkfifo "$rig/head/go"
  ssh-keygen -q -t ed25519 -N '' -C head -f "$rig/head/home/.ssh/id_ed25519"
  for ((i = 1; i <= rig_count; i++)); do
    rig_hosts+=("$(rig_name $i)")
    rig_write_node $i &
    jobs+=($!)
  done
  wait "${jobs[@]}"
  rig_start head
  rig_head_pid=$!
  for ((i = 1; i <= rig_count; i++)); do
    name=$(rig_name $i)
    cp "$rig/head/home/.ssh/id_ed25519.pub" "$rig/$name/home/.ssh/authorized_keys"
    rig_start "$name" --pid --fork --kill-child
    rig_pids[$i]=$!
    echo "$name,$name-v6,$(rig_address $i),$(rig_address6 $i) $(cut -d' ' -f1,2 "$rig/$name/host_key.pub")"
  done >"$rig/head/home/.ssh/known_hosts"
  rig_await $((rig_count + 1))
  links="link set lo up
link add br0 type bridge forward_delay 0 mcast_snooping 0
address add $rig_network.254/24 dev br0
address add ${rig_network6}fe/64 dev br0 nodad
link set br0 up"
  for ((i = 1; i <= rig_count; i++)); do
    links+="
link add v$i type veth peer name eth0 netns ${rig_pids[$i]}
link set v$i master br0 up"
  done
  echo "$links" | nsenter -t "$rig_head_pid" -n ip -batch - || exit 1
  : >"$rig/head/network"
  for name in head "${rig_hosts[@]}"; do echo go 1<>"$rig/$name/go"; done
  rig_await $((rig_count + 1))
  rig_on_head=(nsenter -t "$rig_head_pid" -n -u -m -- env -u SSH_AUTH_SOCK -C "$PWD" "HOME=$rig_home" USER=root)
}

rig_head() { "${rig_on_head[@]}" "$@"; }

rig_node() {
  local pid=${rig_pids[$1]}
  shift
  nsenter -t "$pid" -n -u -m "--pid=/proc/$pid/ns/pid_for_children" -- \
    env -u SSH_AUTH_SOCK -C "$PWD" "HOME=$rig_home" USER=root "$@"
}

rig_sshd_pid() { cat "$rig/$(rig_name "$1")/sshd.pid"; }

rig_sshd_stop() {
  local pid
  pid=$(rig_sshd_pid "$1" 2>/dev/null) || return 0
  rig_node "$1" kill "$pid" 2>/dev/null
  # The port is free when the process is gone.
  while [ -e "/proc/${rig_pids[$1]}/root/proc/$pid" ]; do rig_nap; done
}

# Returns when it listens: sshd goes to the background before that, and writes its pid after.
rig_sshd_start() {
  local dir=$rig/$(rig_name "$1")
  rm -f "$dir/sshd.pid"
  rig_node "$1" /usr/sbin/sshd -f "$dir/sshd_config" -E "$dir/sshd.log"
  for _ in {1..2000}; do
    [ -s "$dir/sshd.pid" ] && return
    rig_nap
  done
  echo "rig: sshd of $(rig_name "$1") does not listen: $(tail -n 2 "$dir/sshd.log")"
  return 1
}

rig_sshd_kill() {
  rig_node "$1" bash -c 'for pid in /proc/[0-9]*; do
    [ "$(cat $pid/comm 2>/dev/null)" = sshd ] && kill -KILL ${pid#/proc/}; done; true'
}

rig_sshd_conf() {
  local i=$1 dir=$rig/$(rig_name "$1")
  shift
  { printf '%s\n' "$@"; cat "$dir/sshd_config"; } >"$dir/sshd_config.new"
  mv "$dir/sshd_config.new" "$dir/sshd_config"
  rig_sshd_stop "$i"
  rig_sshd_start "$i"
}

rig_sshd_reset() {
  local dir=$rig/$(rig_name "$1")
  cp "$dir/sshd_config.first" "$dir/sshd_config"
  rig_sshd_stop "$1"
  rig_sshd_start "$1"
}

rig_link() { nsenter -t "$rig_head_pid" -n ip link set "v$1" "$2"; }

rig_blackhole() {
  local do=add to
  [ "$2" = on ] || do=del
  for to in "$rig_network.254/32" "${rig_network6}fe/128"; do
    rig_node "$1" ip route $do blackhole "$to"
  done
}

rig_processes() {
  # Without those that look: nsenter's child runs ps itself.
  rig_node "$1" ps -e -o pid=,args= | awk '
    $1 == 1 || / sleep infinity$/ || /^ *[0-9]+ ps -e -o pid=/ || /^ *[0-9]+ (sshd|\/usr\/sbin\/sshd)/ { next }
    { print }'
}

# What runs in head's network, this shell's children included: all of it was started through the rig.
rig_head_processes() {
  local mine dir
  mine=$(readlink "/proc/$rig_head_pid/ns/net") || return 0
  for dir in /proc/[0-9]*; do
    [ "$(readlink "$dir/ns/net" 2>/dev/null)" = "$mine" ] && echo "${dir#/proc/}"
  done
}

rig_down() {
  local status=$? pid
  trap - EXIT
  [ -n "$rig" ] || return $status
  if [ -n "$rig_head_pid" ]; then
    for pid in $(rig_head_processes); do kill -KILL "$pid" 2>/dev/null; done
  fi
  # With a host's first process all others of its PID namespace end.
  for pid in "${rig_pids[@]}" $rig_head_pid; do kill -KILL "$pid" 2>/dev/null; done
  for pid in "${rig_pids[@]}" $rig_head_pid; do
    for _ in {1..500}; do
      [ -e "/proc/$pid" ] || break
      rig_nap
    done
  done
  for _ in {1..100}; do
    rm -rf "$rig" 2>/dev/null && break
    rig_nap # the last writers are just ending
  done
  exec {rig_ready}>&- {rig_silent}>&-
  [ ! -e "$rig" ] || { echo "rig: cannot remove $rig"; status=1; }
  rig= rig_hosts=() rig_pids=() rig_head_pid= rig_count=0
  # As the EXIT trap: the script's own exit code.
  return $status
}
