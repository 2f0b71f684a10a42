#!/usr/bin/env bash
# What kmsenc adds to a stripped arm64 binary that already links DynamoDB and KMS. More than 0.5 MB is an error.
set -euo pipefail
cd "$(dirname "$0")"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export GOOS=linux GOARCH=arm64 CGO_ENABLED=0
go build -trimpath -ldflags='-s -w' -o "$out/without" ./internal/size
go build -trimpath -ldflags='-s -w' -tags sealed -o "$out/with" ./internal/size
without=$(wc -c <"$out/without")
with=$(wc -c <"$out/with")
echo "without kmsenc $without bytes, with it $with: $((with - without)) bytes more"
test $((with - without)) -lt 500000
