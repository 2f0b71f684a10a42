//go:build !sealed

package main

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/kms"
)

func use(context.Context, *kms.Client) {}
