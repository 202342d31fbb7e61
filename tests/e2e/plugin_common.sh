# What the scripts of plugins share: sourced with PATH/collctl and the FOLDER-OF-THE-TESTS'-PLUGINS.
. "$(dirname "$0")/local_common.sh"
hosts=()

ends_with() { [ "$codes" = "$1" ] || fail "exit codes are '$codes', expected '$1'"; }
# Four ranks that meet by address; rank $odd_rank, when set, gets the variables of `odd` instead of those of `all`.
# `hosts`, when set, are the hosts that the ranks say they are on.
join() {
  local r pid pids=() port=$((29500 + RANDOM % 2000))
  : >"$out"; : >"$err"
  for r in 1 2 3 0; do
    local mine=("${all[@]}")
    [ "${odd_rank:-}" = $r ] && mine=("${odd[@]}")
    [ ${#hosts[@]} -gt 0 ] && mine+=("COLLCTL_HOSTID=${hosts[$r]}")
    env "${mine[@]}" COLLCTL_TOKEN=a-token-of-the-tests timeout -k 5 240 "$collctl" run \
      --join 127.0.0.1:$port --rank $r --size 4 "$@" </dev/null >>"$out" 2>>"$err" &
    pids+=($!)
  done
  codes=
  for pid in "${pids[@]}"; do wait "$pid"; codes="$codes$? "; done
}
right() {
  [ "$(grep -o '"wrong":[-0-9]*' "$out" | sort -u)" = '"wrong":0' ] || fail "data was wrong or not checked"
}
