#!/bin/sh
# Print the path of the first Python that really runs, is 3.12 or newer, and can make virtual environments.
# A name on the PATH proves nothing: a pyenv shim is found and then fails (also when HOME is another folder than the
# one it was set up with, so its versions are looked for beside the shims), and Debian splits off ensurepip.
home=${HOME:-/nonexistent}
check='import sys, venv, ensurepip, ssl; sys.exit(not (3, 12) <= sys.version_info[:2] < (3, 16))'

use() {
  [ -n "$1" ] && "$1" -c "$check" >/dev/null 2>&1 && exec "$1" -c 'import sys; print(sys.executable)'
}

for name in "${PYTHON:-}" python3.13 python3.14 python3.12 python3.15 python3; do
  use "$name"
done
IFS=:
for folder in ${PATH:-}; do
  case $folder in */shims) shims="${shims:-}:${folder%/shims}" ;; esac
done
for root in ${PYENV_ROOT:-} "$home/.pyenv" ${shims:-} "$home/.local/share/uv/python" /opt/homebrew /usr/local; do
  for minor in 13 14 12 15; do
    for path in "$root"/versions/3.$minor*/bin/python3 "$root"/cpython-3.$minor*/bin/python3 "$root"/bin/python3.$minor; do
      [ -x "$path" ] && use "$path"
    done
  done
done
echo "outlive: needs Python 3.12 or newer with venv (on Debian also the python3-venv package)." \
  "Install one, or name it: make PYTHON=/path/to/python3" >&2
exit 1
