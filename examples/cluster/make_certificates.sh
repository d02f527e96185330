#!/bin/sh
# Makes a private CA and a certificate for each node: make_certificates.sh FOLDER NAME[=HOST_OR_IP] ...
# Each is made out to its node's NAME: a node that calls itself otherwise is not let in. Keep ca.key off the nodes.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 FOLDER NAME[=HOST_OR_IP] ..." >&2; exit 2; }
command -v openssl >/dev/null || { echo "openssl is not installed (Debian: openssl)" >&2; exit 1; }
folder=$1
shift
mkdir -p "$folder"
umask 077
cd "$folder"
if [ ! -e ca.key ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj "/CN=caravan nodes" -keyout ca.key -out ca.pem 2>/dev/null
fi
for node in "$@"; do
  name=${node%%=*}
  host=${node#*=}
  case $host in
    *[!0-9.]*) alternative="DNS:$host" ;;
    *) alternative="IP:$host" ;;
  esac
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr" 2>/dev/null
  printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$alternative" >"$name.ext"
  openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 825 -extfile "$name.ext" -out "$name.pem" 2>/dev/null
  rm "$name.csr" "$name.ext"
  echo "$folder/$name.pem and $name.key, for $host"
done
