#!/usr/bin/env bash
# Install the browser that the tests of the report drive: chromium and chromedriver, with apt-get.
# Does nothing when a browser and its driver are there; says what it does before it does it.
set -euo pipefail

have() {
    for name in "$@"; do
        if command -v "$name" >/dev/null; then return 0; fi
    done
    return 1
}

# The names that tests/support/browser.py looks for.
if have chromium chromium-browser google-chrome google-chrome-stable chrome &&
    have chromedriver chromium.chromedriver; then
    echo "install_browser: a browser and its driver are installed; nothing to do"
    exit 0
fi
if ! have apt-get; then
    echo "install_browser: install chromium and chromedriver by hand: this system has no apt-get" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! have sudo; then
        echo "install_browser: run as root: apt-get install chromium chromium-driver" >&2
        exit 1
    fi
    as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
fi
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install -y -q --no-install-recommends chromium chromium-driver)
echo "install_browser: runs as root: ${install[*]}"
# The lists of a fresh system are empty or old; then the first attempt finds nothing.
"${as_root[@]}" "${install[@]}" || { "${as_root[@]}" apt-get update -q && "${as_root[@]}" "${install[@]}"; }
