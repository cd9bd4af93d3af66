#!/usr/bin/env bash
# Prints the speed of codecs at every SIMD level of the processor, as a Markdown table: 10^9
# values per second on one thread, and in parentheses that speed relative to reading the values
# from memory. A range covers the kinds of values of bench_error_bounded, bench_lossless and
# bench_reproducible.
#
#   tests/bench/simd_levels.sh <build folder> [<option of the benchmarks>...]
#
# Default options: --benchmark_repetitions=5 --benchmark_min_time=0.05. Takes a few minutes on an
# otherwise idle machine.
set -euo pipefail

(($# > 0)) || {
  echo "simd_levels: usage: $0 <build folder> [<option of the benchmarks>...]" >&2
  exit 2
}
build=$1
shift
for benchmark in error_bounded lossless reproducible; do
  [[ -x $build/tests/bench/bench_$benchmark ]] || {
    echo "simd_levels: '$build/tests/bench/bench_$benchmark' does not exist; cmake --build '$build' --target bench_$benchmark builds it" >&2
    exit 2
  }
done
(($# > 0)) || set -- --benchmark_repetitions=5 --benchmark_min_time=0.05

# results <benchmark> <level> <option>...: prints the results; nothing if the processor lacks the
# level
results() {
  local filter="(encode|decode|merge) .*/($2|floats|doubles|fallback|)/memory" lines line
  lines=$(HCOMP_MAX_SIMD=$2 "$build/tests/bench/bench_$1" --benchmark_filter="$filter" "${@:3}")
  [[ $lines != *"; at most $2"* ]] ||
    while IFS= read -r line; do echo "$1|$2|$line"; done <<<"$lines"
}

for benchmark in error_bounded lossless reproducible; do
  for level in avx512 avx2 baseline; do
    results $benchmark $level "$@"
  done
done | awk -F '|' '
function widen(range, value) {
  if (!(range in least) || value < least[range]) least[range] = value
  if (!(range in most) || value > most[range]) most[range] = value
}
function text(range,  from, to) {
  from = sprintf("%.2f", least[range]); to = sprintf("%.2f", most[range])
  return from == to ? from : from " to " to
}
function cell(of) { return text(of "speed") " (" text(of "share") ")" }
# Columns printed by paired.hpp: operation and values, kind of values, time / time of reading,
# speed.
$3 ~ /^(encode|decode|merge) / {
  split(substr($3, 1, 27), figure, " "); split(substr($3, 43), number, " ")
  kind = substr($3, 28, 9); sub(/ +$/, "", kind)
  # bench_reproducible prints no kind
  if (kind == "") kind = figure[2] ~ /^double/ ? "doubles" : "floats"
  codec = $1 (kind == $2 ? " of floats" : kind == "fine" ? "_fine of floats" : " of " kind)
  if (!seen[codec]++) codecs[++count] = codec
  measured[codec, $2] = 1
  widen(codec $2 figure[1] "speed", number[3] + 0)
  widen(codec $2 figure[1] "share", 1 / number[1])
}
END {
  print "| codec | SIMD level | encode | decode | merge |\n|---|---|---|---|---|"
  levels = split("avx512 avx2 baseline", level, " ")
  for (i = 1; i <= count; ++i)
    for (k = 1; k <= levels; ++k) {
      row = codecs[i] level[k]
      if ((codecs[i], level[k]) in measured)
        print "| " codecs[i] " | " level[k] " | " cell(row "encode") " | " cell(row "decode") " | " \
          cell(row "merge") " |"
    }
}'
