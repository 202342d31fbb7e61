# What scripts share that run the binary on this host: sourced with PATH/collctl as $1. CPU ranks, on machines with GPUs as well.
export CUDA_VISIBLE_DEVICES=-1
collctl=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
out=$work/out err=$work/err

say() { printf '%s\n' "$*"; }
fail() {
  say "FAILED: $case: $*"
  sed 's/^/    out: /' "$out" | cut -c1-600 | head -40
  sed 's/^/    err: /' "$err" | cut -c1-600 | head -30
  failures=$((failures + 1))
}
case_is() { case=$1; say "- $case"; }
# `patience`: seconds that a run may take.
run() { timeout -k 5 "${patience:-240}" "$collctl" "$@" >"$out" 2>"$err" </dev/null; rc=$?; }
is_code() { [ "$rc" = "$1" ] || fail "exit code $rc, expected $1"; }
has_out() { grep -qF -- "$1" "$out" || fail "standard output lacks '$1'"; }
has_err() { grep -qF -- "$1" "$err" || fail "standard error lacks '$1'"; }
