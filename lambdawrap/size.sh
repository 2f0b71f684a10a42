#!/usr/bin/env bash
# What all adapters and the observers add to a stripped arm64 binary that already has Wrap. More than 1 MB is an error.
set -euo pipefail
cd "$(dirname "$0")"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export GOOS=linux GOARCH=arm64 CGO_ENABLED=0
go build -trimpath -tags lambda.norpc -ldflags='-s -w' -o "$out/without" ./internal/size
go build -trimpath -tags lambda.norpc,adapters -ldflags='-s -w' -o "$out/with" ./internal/size
without=$(wc -c <"$out/without")
with=$(wc -c <"$out/with")
echo "with Wrap alone $without bytes, with all adapters and observers $with: $((with - without)) bytes more"
test $((with - without)) -lt 1000000
