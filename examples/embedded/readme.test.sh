#!/bin/sh
# readme.test.sh README.md main.cpp: the first C++ block of the README is the file.
set -eu
sed -n '/^```cpp$/,/^```$/p' "$1" | sed '/^```$/q' | sed '/^```/d' | diff - "$2" ||
  { echo "the first C++ block of $1 is not $2" >&2; exit 1; }
