#!/usr/bin/env bash
# The release binary needs only the C library's own shared objects (and libgcc_s), and starts on glibc 2.34.
set -euo pipefail
binary=$1
others=$(ldd "$binary" | awk '{print $1}' | grep -Ev '^(linux-vdso|libc|libm|libgcc_s|libdl|libpthread|librt)\.so|ld-linux' || true)
if [ -n "$others" ]; then
  echo "linked to more than the C library: $others"
  exit 1
fi
symbols=$(objdump -T "$binary" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu)
newest=$(tail -n 1 <<<"$symbols")
echo "needs $newest; $(ldd "$binary" | wc -l) shared objects; $(stat -c %s "$binary") bytes"
host=$(getconf GNU_LIBC_VERSION | awk '{print $2}')
if [ "$(printf '%s\n2.36\n' "$host" | sort -V | tail -n 1)" != 2.36 ]; then
  echo "skipped: the glibc floor: built against glibc $host; it is checked on builds against 2.36 and older"
  exit 77
fi
if [ "$(printf '%s\nGLIBC_2.34\n' "$newest" | sort -V | tail -n 1)" != GLIBC_2.34 ]; then
  echo "symbols newer than glibc 2.34:"
  objdump -T "$binary" | grep -E 'GLIBC_2\.(3[5-9]|[4-9][0-9])'
  exit 1
fi
