#!/usr/bin/env bash
# A machine that has nothing yet: a bare Debian made by debootstrap with git alone added, a clone of the checkout in it,
# and README's first command, as a user who may install nothing and as root; then what the second command needs.
#
#   bare_machine.sh CHECKOUT [SUITE...]      (bookworm)
#
# Needs root and a Debian mirror. COLLCTL_BARE_CACHE keeps downloaded packages from run to run, COLLCTL_BARE_MIRROR
# names a mirror other than the one this machine installs from.
set -euo pipefail

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }

# What is done within the mount and process namespaces: all of it ends and is unmounted with them.
inside() {
  local root=$1 archives=$2 checkout=$3 rc=0
  mount --make-rprivate /
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
  mount --bind "$archives" "$root/var/cache/apt/archives"
  # Services of packages are not started.
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod +x "$root/usr/sbin/policy-rc.d"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  chroot "$root" useradd --create-home op
  local home
  for home in root home/op; do
    git -c safe.directory='*' clone -q "$checkout" "$root/$home/collctl"
  done
  chroot "$root" chown -R op:op /home/op

  # As USER: rc, and what was written to $root.out and $root.err.
  as() {
    local user=$1 home
    shift
    home=$(chroot "$root" getent passwd "$user" | cut -d: -f6)
    rc=0
    chroot --userspec="$user" "$root" env -i HOME="$home" USER="$user" LANG=C.UTF-8 \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c 'cd "$HOME/collctl" && exec "$@"' sh "$@" \
      >"$root.out" 2>"$root.err" </dev/null || rc=$?
    echo "$user: $* -> exit $rc"
    sed 's/^/  | /' "$root.out" "$root.err"
  }
  installed() { chroot "$root" dpkg-query -W -f '${Package}\n'; }
  local packages
  packages=$(bash -c "$(grep -E '^build_packages=' "$checkout/dev"); printf '%s\n' \"\${build_packages[@]}\"")

  as op sh -c "/opt/collctl-*/bin/collctl run -n 4 allreduce -e 64K"
  [ "$rc" = 0 ] || fail "the tarball's binary ended with $rc on a bare machine"

  installed >"$root.before"
  as op ./collctl run -n 4 allreduce
  [ "$rc" = 3 ] || fail "a user without sudo got $rc, not 3"
  [ ! -s "$root.out" ] || fail "stdout belongs to the command"
  local package named
  named=$(grep 'apt-get install -y ' "$root.err" || true)
  for package in $packages; do
    [[ " $named " = *" $package "* ]] || grep -qx "$package" "$root.before" || fail "$package is missing and is not named"
  done
  installed | cmp -s - "$root.before" || fail "something was installed for a user who may not"

  local started=$SECONDS
  chroot "$root" apt-mark showmanual | sort >"$root.before"
  as root ./collctl run -n 4 allreduce
  [ "$rc" = 0 ] || fail "README's first command ended with $rc"
  echo "README's first command took $((SECONDS - started)) s"
  grep -q '^# Verdict  *: passed' "$root.out" || fail "no verdict in the output"
  grep -q '^COLLCTL_TESTS:BOOL=OFF' "$root/root/collctl/build/release/CMakeCache.txt" || fail "the product was configured with tests"
  chroot "$root" apt-mark showmanual | sort | comm -13 "$root.before" - >"$root.new"
  sort <<<"$packages" | cmp -s - "$root.new" ||
    fail "installed was not what a build uses, but: $(paste -sd ' ' "$root.new")"
  as root ./collctl run -n 4 allreduce
  [ "$rc" = 0 ] || fail "the first command ended with $rc the second time"
  ! grep -q '^dev: building' "$root.err" || fail "it was built again although nothing had changed"

  as root ./dev test --configure
  [ "$rc" = 0 ] || fail "what ./dev test needs could not be installed or configured ($rc)"
  grep -q '^COLLCTL_TESTS:BOOL=ON' "$root/root/collctl/build/release/CMakeCache.txt" || fail "the tests were not configured"
}

# The image that `./dev package` has a file for, built on the bare machine in place of the one from a registry, and run.
image() {
  local root=$1 context=$2 container
  if ! command -v buildah >/dev/null; then
    echo "not tried: the container image (buildah is not installed)"
    return 0
  fi
  local buildah=(buildah --root "$folder/images" --runroot "$folder/images.run" --storage-driver vfs)
  {
    container=$("${buildah[@]}" from scratch) &&
      tar -C "$root" --one-file-system -cf "$folder/bare.tar" . &&
      "${buildah[@]}" add -q "$container" "$folder/bare.tar" / &&
      "${buildah[@]}" commit -q --rm "$container" bare &&
      rm "$folder/bare.tar" &&
      cp "$build/Containerfile" "$context/" &&
      "${buildah[@]}" bud --isolation chroot --network host --build-arg BASE=localhost/bare -t collctl \
        -f "$context/Containerfile" "$context" &&
      container=$("${buildah[@]}" from localhost/collctl)
  } >"$folder/log" 2>&1 || { tail -n 20 "$folder/log"; fail "the container image could not be built"; }
  "${buildah[@]}" run --isolation chroot --network host "$container" collctl run -n 4 allreduce -e 64K >"$folder/log" 2>&1 ||
    { cat "$folder/log"; fail "collctl failed in the container"; }
  echo "container image: built, and collctl passed in it"
  rm -rf "$folder/images" "$folder/images.run"
}

if [ "${1:-}" = --inside ]; then
  shift
  inside "$@"
  exit 0
fi

checkout=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
shift 2
[ "$(id -u)" = 0 ] || skip "a bare root folder needs root (debootstrap, chroot)"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
unshare --mount --pid --fork true 2>/dev/null || skip "this machine allows no mount and process namespaces"
[ -d "$checkout/.git" ] || [ -f "$checkout/.git" ] || skip "$checkout is no git checkout"
[ -z "$(git -C "$checkout" status --porcelain)" ] || echo "note: changes that are not committed are not in the clone"
cache=${COLLCTL_BARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/collctl}
mkdir -p "$cache"
folder=$(mktemp -d "${TMPDIR:-/var/tmp}/collctl-bare.XXXXXX")
chmod 755 "$folder"
trap 'rm -rf --one-file-system "$folder"' EXIT
(cd "$build" && cpack -G TGZ -B "$folder" >"$folder/log" 2>&1) || { tail "$folder/log"; fail "no tarball"; }
[ $# -gt 0 ] || set -- bookworm
for suite in "$@"; do
  mirror=${COLLCTL_BARE_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' "Codename: $suite" 2>/dev/null | head -n 1)}
  mirror=${mirror:-http://deb.debian.org/debian}
  archives=$cache/archives-$suite
  mkdir -p "$archives/partial"
  echo "== $suite from $mirror"
  debootstrap --variant=minbase --include=git,ca-certificates --cache-dir="$archives" "$suite" "$folder/$suite" "$mirror" \
    >"$folder/log" 2>&1 || {
    tail -n 5 "$folder/log"
    wget -q --spider "$mirror/dists/$suite/Release" || skip "no Debian mirror answers at $mirror"
    fail "debootstrap could not make a bare $suite"
  }
  apt-config dump | grep -E '^Acquire::(https?::Proxy|Retries|Check-)' >"$folder/$suite/etc/apt/apt.conf.d/99host" || true
  image "$folder/$suite" "$folder"
  tar -xzf "$folder"/*.tar.gz -C "$folder/$suite/opt"
  unshare --mount --pid --fork --kill-child "$0" --inside "$folder/$suite" "$archives" "$checkout" || fail "on $suite"
done
echo "passed"
