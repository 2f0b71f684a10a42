// Size is a function that guards one handler with Wrap, and with the build tag "adapters" every other adapter and the observers on
// top: size.sh compares the two. It is not made to be invoked.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/lambdawrap"
)

func main() {
	if os.Getenv("LAMBDAWRAP_SIZE") == "" {
		return
	}
	lambda.Start(handler(os.Getenv("LAMBDAWRAP_SIZE")))
}

type input struct{ ID string }

// operation has no store: nothing is called.
func operation[T any]() *idem.Operation[T] {
	op, err := idem.New[T](nil, idem.InsecureCleartext(), "size", &idem.Options{Observe: observer()})
	if err != nil {
		panic(err)
	}
	return op
}

func id[R any](context.Context, R) (idem.Request, error)   { return idem.Request{}, nil }
func handle[R, T any](context.Context, R) (t T, err error) { return }

func wrapped() lambda.Handler {
	return lambdawrap.Wrap(operation[string](), id[input], handle[input, string])
}
