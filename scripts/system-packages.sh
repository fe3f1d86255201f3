#!/usr/bin/env bash
# What the tests need beside Node: a real torch for interop, strace for injected faults, bindfs for mounts that die, Python for the scenes,
# a browser for the page.
set -euo pipefail
wanted=(python3 python3-torch python3-numpy strace zstd bindfs fuse3 chromium fonts-dejavu-core)
missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "make test needs these packages and can only install them as root: ${missing[*]}" >&2
  echo "  next: sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
if ! command -v apt-get >/dev/null; then
  echo "make test needs these packages under your system's names: ${missing[*]} (there is no apt-get here)" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends "${missing[@]}"
