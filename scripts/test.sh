#!/usr/bin/env bash
# Types, lint, unused code, then every test. Ends with one line: N passed, N failed.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0
step() {
  local name=$1
  shift
  local began=$SECONDS
  echo "== $name"
  if "$@"; then echo "== $name: ok, $((SECONDS - began)) s"; else
    echo "== $name: FAILED, $((SECONDS - began)) s"
    failed=$((failed + 1))
  fi
}
mkdir -p .tmp
step types npx tsc --noEmit
step lint npx biome check .
step unused npx knip
report=.tmp/vitest.json
rm -f "$report"
# The tests count one by one, so this step is none of its own.
echo "== tests"
npx vitest run --reporter=default --reporter=json --outputFile.json="$report"
node scripts/count-tests.mjs "$report" "$failed"
