# What tests/rdma_vm/run boots; sourced by it.
#
#   image_make           makes sure of kernel and modules, once, in $cache; skips where they cannot be had
#   image_initrd FILE    packs the first file system
#   image_accelerator    chooses between KVM and qemu's own emulation; sets $image_accelerator
#   image_qemu, image_kernel_line: how qemu is to be called with them

# In this order; one with a ? is only in some kernels (later ones have the checksum built in).
image_modules=(virtio_pci virtio_console 9pnet_virtio 9p '?crc32_generic' ib_uverbs rdma_rxe veth bridge sch_netem)
# For a virtual machine that lives for seconds: nothing to protect, nothing to test, nothing to wait for.
image_kernel_line='console=ttyS0 quiet panic=-1 nokaslr mitigations=off cryptomgr.notests tsc=reliable edd=off random.trust_cpu=on'
image_boot_limit=30  # seconds that the emulation may need; slower machines skip

image_tools() {
  local tool
  [ "$(uname -m)" = x86_64 ] || skip "the virtual machine is made for x86_64, this is $(uname -m)"
  for tool in qemu-system-x86_64:qemu-system-x86 modprobe:kmod rdma:iproute2 xz:xz-utils flock:util-linux; do
    PATH=$PATH:/usr/sbin:/sbin command -v "${tool%:*}" >/dev/null || skip "${tool%:*} is not installed (package ${tool#*:})"
  done
  compgen -G '/usr/lib*/*/libibverbs/librxe-*.so' >/dev/null || compgen -G '/usr/lib*/libibverbs/librxe-*.so' >/dev/null ||
    skip "libibverbs' driver for soft-RoCE is not installed (package ibverbs-providers)"
  # Its programs are all there is before this machine's are mounted: they must not need libraries.
  image_busybox=$(command -v busybox) || skip "busybox is not installed (package busybox-static)"
  "$image_busybox" --list | grep -x insmod >/dev/null || skip "$image_busybox has no insmod (package busybox-static)"
  ! ldd "$image_busybox" >/dev/null 2>&1 || skip "$image_busybox is not static (package busybox-static)"
}

# The distribution's kernel, unpacked and not installed. Sets image_version, and image_base: where its boot and lib are.
image_fetch() { # into
  local package
  command -v apt-get >/dev/null || return 1
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
  [ -n "$package" ] || return 1
  say "fetching $package"
  mkdir -p "$1" && (
    cd "$1" && timeout 300 apt-get -q -o APT::Sandbox::User= download "$package" >log 2>&1 &&
      dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x --no-same-owner --wildcards './boot/*' '*/lib/modules/*' && rm -f "$package"_*.deb
  ) || { tail -n 3 "$1/log" >&2; return 1; }
  image_version=${package#linux-image-}
  image_base=$1
  [ -e "$1/lib" ] || ln -s usr/lib "$1/lib"  # of distributions whose packages know the merged /usr
  depmod -b "$1" "$image_version"
}

# Or a kernel that is installed here.
image_installed() {
  local file
  for file in $(ls -t /boot/vmlinuz-* 2>/dev/null); do
    image_version=${file#/boot/vmlinuz-}
    image_base=/
    [ -r "$file" ] && modprobe -S "$image_version" --show-depends rdma_rxe >/dev/null 2>&1 && return 0
  done
  return 1
}

# Copies the modules to $1/modules, plain, numbered in the order they are to be loaded.
image_copy_modules() {
  local module file count=100 files=() found
  for module in "${image_modules[@]}"; do
    found=$(modprobe -d "$image_base" -S "$image_version" --show-depends "${module#'?'}" 2>/dev/null) || {
      [ "${module:0:1}" = '?' ] && continue
      skip "the kernel $image_version has no module $module"
    }
    files+=($(awk '/^insmod/ {print $2}' <<<"$found"))
  done
  mkdir -p "$1/modules"
  for file in $(printf '%s\n' "${files[@]}" | awk '!seen[$0]++'); do
    count=$((count + 1))
    module=$1/modules/$count-$(basename "${file%%.ko*}").ko
    case $file in
      *.ko) cp "$file" "$module" ;;
      *.ko.xz) xz -dc "$file" >"$module" ;;
      *.ko.zst) zstd -dcq "$file" >"$module" ;;
      *.ko.gz) gzip -dc "$file" >"$module" ;;
      *) skip "how is $file packed?" ;;
    esac || broken "cannot copy $file"
  done
}

image_make() {
  local PATH=$PATH:/usr/sbin:/sbin name
  image_tools
  mkdir -p "$cache" || broken "cannot make $cache"
  exec 9>"$cache/lock"
  flock -w 400 9 || broken "another run has been making $cache for 400 s"
  # Made anew when what it is made of has changed.
  name=image-$(cat "$here/image.sh" "$image_busybox" | sha256sum | cut -c 1-12)
  if [ ! -d "$cache/$name" ]; then
    rm -rf "$cache/new" "$cache"/image-*
    image_fetch "$cache/new/package" || image_installed ||
      skip "no kernel for the virtual machine: linux-image-amd64 cannot be fetched, and none with rdma_rxe is installed"
    image_copy_modules "$cache/new"
    image_unpack_kernel "$image_base/boot/vmlinuz-$image_version" "$cache/new/kernel"
    rm -rf "$cache/new/package"
    mv "$cache/new" "$cache/$name"
  fi
  exec 9>&-
  image_folder=$cache/$name
}

# The first file system: modules, busybox and init; everything else is mounted.
image_initrd() { # file
  local root=$1.root
  mkdir -p "$root"/{usr,etc,proc,sys,dev,run,tmp,root,boot/bin}
  cp -r "$image_folder/modules" "$root/boot/"
  cp "$image_busybox" "$root/boot/bin/busybox"
  cp "$here/init" "$root/init"
  (cd "$root" && find . | "$image_busybox" cpio -o -H newc 2>/dev/null) >"$1" || broken "cannot pack $root"
  rm -rf "$root"
}

# Unpacked, the kernel starts at once; the emulation needs seconds to unpack it.
image_unpack_kernel() { # from to
  local sectors begin bytes
  # The boot protocol's header: setup sectors, then where in the protected-mode part the payload is.
  image_header() { od -An -v -t "u$2" -j "$1" -N "$2" "$3" | tr -d ' '; }
  sectors=$(image_header $((0x1f1)) 1 "$1")
  begin=$(((sectors + 1) * 512 + $(image_header $((0x248)) 4 "$1")))
  bytes=$(image_header $((0x24c)) 4 "$1")
  tail -c "+$((begin + 1))" "$1" | head -c "$bytes" | xz -dcq --single-stream >"$2" 2>/dev/null
  [ "$(head -c 4 "$2" | od -An -t x1 | tr -d ' ')" = 7f454c46 ] || cp "$1" "$2" || broken "cannot copy $1"
}

image_call() { # accelerator
  case $1 in
    kvm) image_qemu=(-accel kvm -cpu host) ;;
    *) image_qemu=(-accel "tcg,thread=multi,tb-size=256" -cpu max) ;;
  esac
  image_qemu=(qemu-system-x86_64 "${image_qemu[@]}" -machine "pc,usb=off,vmport=off" -nodefaults -no-user-config
    -display none -monitor none -no-reboot -kernel "$image_folder/kernel" -initrd "$work/initrd")
}

# Does a virtual machine boot and end within so many seconds? /dev/kvm may be there and not work.
image_boots() { # accelerator seconds
  image_call "$1"
  # A subshell, so that nothing is said of a qemu that is aborted.
  (ulimit -c 0 && timeout -k 2 "$2" "${image_qemu[@]}" -smp 1 -m 256 -serial null \
    -append "$image_kernel_line rdma_vm.probe" </dev/null; exit $?) >/dev/null 2>&1
}

# What was found out holds while the image, the kernel of this machine and its boot are the same.
image_accelerator() {
  local known=$image_folder/accelerator-$(cat /proc/sys/kernel/random/boot_id)
  if [ ! -s "$known" ]; then
    rm -f "$image_folder"/accelerator-*
    if [ -w /dev/kvm ] && image_boots kvm 10; then
      echo kvm >"$known"
    elif image_boots tcg "$image_boot_limit"; then
      echo tcg >"$known"
    else
      skip "no KVM, and emulated the virtual machine does not boot in $image_boot_limit s"
    fi
  fi
  image_accelerator=$(cat "$known")
  image_call "$image_accelerator"
}
