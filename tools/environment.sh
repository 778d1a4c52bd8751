#!/bin/sh
# Install packages into a virtual environment, which is made first if needed: sh tools/environment.sh .venv -e .
# Two variables: PYTHON is the Python to make it with, and TORCH a build of torch, which only uv can choose.
set -e
folder=$1
shift
is_new_enough='import sys; sys.exit(sys.version_info < (3, 10))'

first_new_enough() {
  for python in "$@"; do
    if "$python" -c "$is_new_enough" 2>/dev/null; then echo "$python" && return; fi
  done
  echo "The lessons need Python 3.10 or newer, and ${PYTHON:-python3} is not. Install one from python.org," \
    "or say where it is: make lab PYTHON=/path/to/python" >&2
  return 1
}

# One whose making or an installation was cut off is made again, because pip and uv take half a package for a whole one.
# What was downloaded is in their caches.
if [ -e "$folder.unfinished" ] || [ -e "$folder/.installing" ] || ! "$folder/bin/python" -c "$is_new_enough" 2>/dev/null
then
  if [ -n "$PYTHON" ]; then python=$(first_new_enough "$PYTHON")
  else python=$(first_new_enough python3 python python3.13 python3.12 python3.11 python3.10); fi
  touch "$folder.unfinished"
  "$python" -m venv --clear "$folder"
  rm "$folder.unfinished"
fi

touch "$folder/.installing"
find_uv() { command -v uv || command -v "$folder/bin/uv"; }
if [ -n "$TORCH" ] && ! find_uv >/dev/null; then "$folder/bin/python" -m pip install uv; fi
if uv=$(find_uv); then "$uv" pip install --python "$folder/bin/python" --compile-bytecode "$@"
else "$folder/bin/python" -m pip install --disable-pip-version-check "$@"; fi
rm "$folder/.installing"
