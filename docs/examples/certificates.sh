#!/bin/sh
# Make a new folder with an authority, one certificate with its key for all machines of a cluster,
# and the configuration that names them to Dask: sh certificates.sh DIR
set -eu
umask 077
mkdir -- "$1"
cd -- "$1"
cat > openssl.cnf <<'EOF'
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[machine]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
EOF
new="openssl req -x509 -config openssl.cnf -days 3650 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
$new -extensions authority -subj "/CN=faultline cluster" -keyout authority-key.pem -out authority.pem
$new -extensions machine -subj "/CN=faultline machine" -CA authority.pem -CAkey authority-key.pem \
    -keyout key.pem -out certificate.pem
rm authority-key.pem openssl.cnf
here=$(pwd | sed "s/'/''/g")
cat > dask.yaml <<EOF
distributed:
  comm:
    tls:
      ca-file: '$here/authority.pem'
      scheduler: &machine {cert: '$here/certificate.pem', key: '$here/key.pem'}
      worker: *machine
      client: *machine
EOF
