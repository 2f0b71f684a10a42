package lambdawrap_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

// tenantOf decodes an event and asks a tenant function.
func tenantOf[Req any](t *testing.T, event []byte, f func(context.Context, Req) (string, error)) string {
	t.Helper()
	var r Req
	if err := json.Unmarshal(event, &r); err != nil {
		t.Fatal(err)
	}
	got, err := f(t.Context(), r)
	if err != nil {
		if got != "" {
			t.Errorf("%q with an error", got)
		}
		return "error: " + err.Error()
	}
	return got
}

func TestReadyMadeTenants(t *testing.T) {
	files := testdata(t)
	iam := func(arn string) []byte {
		return []byte(`{"requestContext":{"authorizer":{"iam":{"accessKey":"ASIASECRET","callerId":"AROA:session","userId":"AROA:session","userArn":"` + arn + `"}}}}`)
	}
	for _, c := range []struct{ name, got, want string }{
		{"JWT", tenantOf(t, []byte(`{"requestContext":{"authorizer":{"jwt":{"claims":{"iss":"https://i","sub":"u-1","jti":"j","sid":"s"}}}}}`), lambdawrap.JWTSubject[events.APIGatewayV2HTTPRequest]), "https://i|u-1"},
		{"JWT without sub", tenantOf(t, files["apigw-v2-request-jwt-authorizer.json"], lambdawrap.JWTSubject[events.APIGatewayV2HTTPRequest]), "error: the request has no verified JWT"},
		{"no JWT", tenantOf(t, files["apigw-v2-request-iam.json"], lambdawrap.JWTSubject[events.APIGatewayV2HTTPRequest]), "error: the request has no verified JWT"},
		{"Cognito user pool on REST", tenantOf(t, []byte(`{"requestContext":{"authorizer":{"claims":{"iss":"https://i","sub":"u-1"}}}}`), lambdawrap.JWTSubject[events.APIGatewayProxyRequest]), "https://i|u-1"},
		{"no JWT on REST", tenantOf(t, files["apigw-request.json"], lambdawrap.JWTSubject[events.APIGatewayProxyRequest]), "error: the request has no verified JWT"},
		{"no JWT on ALB", tenantOf(t, files["alb-lambda-target-request-headers-only.json"], lambdawrap.JWTSubject[events.ALBTargetGroupRequest]), "error: the request has no verified JWT"},
		{"Cognito identity", tenantOf(t, files["apigw-v2-request-iam.json"], lambdawrap.IAMCaller[events.APIGatewayV2HTTPRequest]), "cognito:us-east-1:3f291106-8703-466b-8f2b-3ecee1ca56ce"},
		{"Cognito identity on REST", tenantOf(t, files["apigw-request.json"], lambdawrap.IAMCaller[events.APIGatewayProxyRequest]), "cognito:theCognitoIdentityId"},
		{"user", tenantOf(t, files["lambda-urls-request.json"], lambdawrap.IAMCaller[events.LambdaFunctionURLRequest]), "arn:aws:iam::111122223333:user/example-user"},
		{"role", tenantOf(t, iam("arn:aws:sts::1:assumed-role/Payer/i-0abc/x"), lambdawrap.IAMCaller[events.APIGatewayV2HTTPRequest]), "arn:aws:sts::1:assumed-role/Payer"},
		{"role in China", tenantOf(t, iam("arn:aws-cn:sts::1:assumed-role/Payer/session"), lambdawrap.IAMCaller[events.LambdaFunctionURLRequest]), "arn:aws-cn:sts::1:assumed-role/Payer"},
		{"user of that name", tenantOf(t, iam("arn:aws:iam::1:user/assumed-role/a/b"), lambdawrap.IAMCaller[events.LambdaFunctionURLRequest]), "arn:aws:iam::1:user/assumed-role/a/b"},
		{"root", tenantOf(t, iam("arn:aws:iam::1:root"), lambdawrap.IAMCaller[events.LambdaFunctionURLRequest]), "arn:aws:iam::1:root"},
		{"nobody", tenantOf(t, []byte(`{}`), lambdawrap.IAMCaller[events.LambdaFunctionURLRequest]), "error: the request has no IAM caller"},
		{"API key", tenantOf(t, files["apigw-request.json"], lambdawrap.APIKeyID), "theApiKeyId"},
		{"no API key", tenantOf(t, []byte(`{"requestContext":{"identity":{"apiKey":"s3cret"}}}`), lambdawrap.APIKeyID), "error: the request has no API key id"},
	} {
		if !strings.HasPrefix(c.got, c.want) || !strings.HasPrefix(c.want, "error") && c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, c.got, c.want)
		}
	}
}

// The functions fit the adapters without type arguments, and what they refuse makes no record.
func TestTenantIsolationMode(t *testing.T) {
	store, runs := idemtest.NewMemory(t), 0
	h := lambdawrap.APIGatewayV2(operation[events.APIGatewayV2HTTPResponse](t, store, nil), lambdawrap.TenantID,
		func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
			runs++
			return events.APIGatewayV2HTTPResponse{StatusCode: 200}, nil
		}, nil)
	event, _ := json.Marshal(v2Event(payment("k")))
	out, err := h.Invoke(invoked(t), event)
	if err != nil || !strings.Contains(string(out), "caller-unknown") || len(store.Records()) != 0 {
		t.Errorf("%s, %v", out, err)
	}
	for _, tenant := range []string{"a", "b", "a"} {
		ctx := lambdacontext.NewContext(invoked(t), &lambdacontext.LambdaContext{TenantID: tenant, AwsRequestID: rand()})
		if out, err := h.Invoke(ctx, event); err != nil || !strings.Contains(string(out), `"statusCode":200`) {
			t.Errorf("%s, %v", out, err)
		}
	}
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
	for _, r := range store.Records() {
		if r.ID.Tenant != "a" && r.ID.Tenant != "b" {
			t.Errorf("tenant %q", r.ID.Tenant)
		}
	}
	var _ func(context.Context, events.LambdaFunctionURLRequest) (string, error) = lambdawrap.IAMCaller
}
