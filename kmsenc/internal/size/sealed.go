//go:build sealed

package main

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/idem-go/idem/kmsenc"
)

func use(ctx context.Context, client *kms.Client) {
	s, err := kmsenc.New(client, "", nil)
	if err != nil {
		return
	}
	f, _ := s.Prepare(ctx, nil)
	text, _ := f(nil, nil, nil)
	s.Open(ctx, nil, nil, nil, text)
	s.Rewrap(ctx, client, nil, text)
}
