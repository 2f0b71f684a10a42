//go:build !adapters

package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
)

func handler(string) lambda.Handler               { return wrapped() }
func observer() func(context.Context, idem.Event) { return nil }
