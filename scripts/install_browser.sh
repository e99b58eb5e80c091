#!/usr/bin/env bash
# Install the browser that the tests of the report drive: Debian's chromium and its driver.
# Does nothing when both are there.
set -euo pipefail

if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "install_browser: install chromium and chromedriver by hand: this system has no apt-get" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "install_browser: run as root: apt-get install chromium chromium-driver" >&2
        exit 1
    fi
    as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
fi
export DEBIAN_FRONTEND=noninteractive
# The lists of a fresh system are empty or old; then the first attempt finds nothing.
install=(apt-get install -y -q --no-install-recommends chromium chromium-driver)
"${as_root[@]}" "${install[@]}" || { "${as_root[@]}" apt-get update -q && "${as_root[@]}" "${install[@]}"; }
