// Package lab lets a demonstration and the end-to-end tests hurt a Lambda function from outside: real processes under
// the Lambda runtime interface emulator (RIE), killed, stopped and continued by signals, and a proxy on the wire that
// does so at one named request. The function under test is built as it is shipped and knows nothing of it.
//
//	function, err := lab.Build(ctx, "github.com/idem-go/idem/examples/payment", dir)
//	engine, err := lab.NewProxy("http://127.0.0.1:8000")
//	env, err := function.Start(ctx, &lab.Options{Env: map[string]string{"AWS_ENDPOINT_URL_DYNAMODB": engine.URL()}})
//	engine.After(lab.Match{Target: "UpdateItem", N: 2}, lab.Kill(env.Kill)) // recorded, and nobody was told
//	body, status, functionError, err := env.Invoke(ctx, event, "request-1")
//
// Everything listens on the loopback. Only processes that this package started are ever signalled. Environments need
// Linux; the proxy runs anywhere.
package lab
