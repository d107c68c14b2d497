#!/bin/sh -e
# Make an authority and one certificate for all machines of a Dask cluster in ./cluster-keys, and the
# configuration that names them: export DASK_CONFIG=/path/to/cluster-keys on each machine.
mkdir -m 700 cluster-keys && cd cluster-keys
openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=authority -keyout authority-key.pem -out authority.pem
openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=faultline -CA authority.pem -CAkey authority-key.pem -keyout key.pem -out certificate.pem
cat > dask.yaml <<EOF
distributed:
  comm:
    tls:
      ca-file: $PWD/authority.pem
      scheduler: {cert: $PWD/certificate.pem, key: $PWD/key.pem}
      worker: {cert: $PWD/certificate.pem, key: $PWD/key.pem}
      client: {cert: $PWD/certificate.pem, key: $PWD/key.pem}
EOF
