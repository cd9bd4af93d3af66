# shellcheck shell=bash
# For scripts whose commands take minutes: they number their steps and show progress at least every
# 20 seconds, on a terminal in one status line.
#
#   begin_step "build"            prints "== step 2 of 3: build"; steps is the number of steps
#   show_progress COMMAND...      runs COMMAND; meanwhile prints what progress_text prints, and the
#                                 seconds

steps=${steps:-1}
step=0
begin_step() {
  step=$((step + 1))
  echo "== step $step of $steps: $1"
}

# The default: nothing but the seconds.
progress_text() { :; }

ninja_progress() { # ninja_progress LOG: "123 of 764 build steps"
  sed -n 's|^\[\([0-9]*\)/\([0-9]*\)\].*|\1 of \2 build steps|p' "$1" 2>/dev/null | tail -n 1
}

ticker=
exec {never}<> <(:) # nothing arrives here: reading it with a time limit is a sleep without a process
tick() {
  local start=$SECONDS period=20 text
  [[ ! -t 1 ]] || period=2
  while true; do
    read -r -t $period -u "$never" || true
    text=$(progress_text)
    text="   ${text:+$text, }$((SECONDS - start)) s"
    if [[ -t 1 ]]; then
      printf '\r\033[K%s' "$text"
    else
      echo "$text"
    fi
  done
}
stop_ticker() {
  [[ -n $ticker ]] || return 0
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  ticker=
  [[ ! -t 1 ]] || printf '\r\033[K'
}
show_progress() {
  local status=0
  tick &
  ticker=$!
  "$@" || status=$?
  stop_ticker
  return $status
}
