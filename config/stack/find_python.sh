#!/bin/sh
# Print the path of the first Python that really runs, is 3.12 or newer, and can make virtual environments.
# A name on the PATH proves nothing: a pyenv shim is found and then fails, and Debian splits off ensurepip.
home=${HOME:-/nonexistent}
ok() { "$1" -c 'import sys, venv, ensurepip, ssl; sys.exit(not (3, 12) <= sys.version_info[:2] < (3, 16))' >/dev/null 2>&1; }
for candidate in "${PYTHON:-}" python3.13 python3.14 python3.12 python3.15 python3 \
  $(ls -d "${PYENV_ROOT:-$home/.pyenv}"/versions/3.1[2345]*/bin/python3 2>/dev/null | sort -rV) \
  $(ls -d "$home"/.local/share/uv/python/cpython-3.1[2345]*/bin/python3 2>/dev/null | sort -rV) \
  /opt/homebrew/bin/python3.1[2345] /usr/local/bin/python3.1[2345]; do
  if [ -n "$candidate" ] && ok "$candidate"; then
    exec "$candidate" -c 'import sys; print(sys.executable)'
  fi
done
echo "outlive: needs Python 3.12 or newer with venv (on Debian also the python3-venv package)." \
  "Install one, or name it: make PYTHON=/path/to/python3" >&2
exit 1
