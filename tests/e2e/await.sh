# Sourced with PATH/collctl or PATH/channel_probe as $1: waits for cues (await.cc) by a program that is built beside them.
# `await CUE...` fails the case when they do not come; $found: the pids of what the last `proc` found.
for await_program in "${AWAIT:-}" "$(dirname "$1")/tests/await" "$(dirname "$1")/await" ''; do
  [ ! -x "$await_program" ] || break
done
[ -n "$await_program" ] || { echo "tests/await is not built: ninja -C build/release await"; exit 1; }
await_program=$(realpath "$await_program")
await() {
  local said
  said=$("$await_program" "$@") && { found=${said:-${found:-}}; return; }
  fail "$said"
  found=
  return 1
}
# The interpreter itself: a shim in its place (pyenv) takes ten times its start, and scripts look at many reports.
PATH=$(dirname "$(python3 -c 'import sys; print(sys.executable)')"):$PATH
