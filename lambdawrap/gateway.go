package lambdawrap

import (
	"context"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
)

// APIGatewayV2 guards the handler of an API Gateway HTTP API (payload format 2.0). Give what it returns to lambda.Start.
//
// Tenant is the authenticated caller, never what the request says of itself: [JWTSubject], [IAMCaller], [TenantID] or a function of
// your own. It is "" for an operation that is SingleTenant.
//
// A request of a guarded method runs the handler at most once per tenant and key, and every further one gets the stored status,
// headers and body, with Idempotent-Replayed: true and without the headers of HTTPOptions.Omit. What is refused is a
// [Problem]. A response that HTTPOptions.Record does not keep goes to its caller and is not repeated. An error of the handler is
// returned to Lambda as it is. Headers that frame the body, Content-Length among them, are left to the gateway. The answer has
// only what payload format 2.0 has: MultiValueHeaders are joined into headers and cookies.
//
// An event of another source is refused with an [idem.RequestError] before anything else. APIGatewayV2 panics where an argument but
// opts is nil.
func APIGatewayV2(op *idem.Operation[events.APIGatewayV2HTTPResponse], tenant func(context.Context, events.APIGatewayV2HTTPRequest) (string, error), h func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error), opts *HTTPOptions[events.APIGatewayV2HTTPRequest]) lambda.Handler {
	return wrapHTTP("APIGatewayV2", op, tenant, h, opts, integration[events.APIGatewayV2HTTPRequest, events.APIGatewayV2HTTPResponse]{
		source: httpAPI,
		facts: func(r events.APIGatewayV2HTTPRequest, header string) facts {
			return facts{
				method: r.RequestContext.HTTP.Method, route: r.RouteKey, path: r.RawPath, query: r.RawQueryString,
				keys: values(header, r.Headers, nil), contentType: first("Content-Type", r.Headers, nil),
				body: r.Body, base64: r.IsBase64Encoded,
			}
		},
		form: func(events.APIGatewayV2HTTPRequest) form { return singleAndCookies },
		parts: func(r events.APIGatewayV2HTTPResponse) parts {
			return parts{StatusCode: r.StatusCode, Headers: r.Headers, MultiValueHeaders: r.MultiValueHeaders, Cookies: r.Cookies, Body: r.Body, IsBase64Encoded: r.IsBase64Encoded}
		},
	})
}

// APIGatewayV1 is [APIGatewayV2] for a REST API, and for an HTTP API with payload format 1.0. [APIKeyID] is a tenant function for it, too.
// Header names keep the client's case there; the answer has headers and multiValueHeaders.
func APIGatewayV1(op *idem.Operation[events.APIGatewayProxyResponse], tenant func(context.Context, events.APIGatewayProxyRequest) (string, error), h func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error), opts *HTTPOptions[events.APIGatewayProxyRequest]) lambda.Handler {
	return wrapHTTP("APIGatewayV1", op, tenant, h, opts, integration[events.APIGatewayProxyRequest, events.APIGatewayProxyResponse]{
		source: restAPI,
		facts: func(r events.APIGatewayProxyRequest, header string) facts {
			return facts{
				method: r.HTTPMethod, route: r.Resource, path: r.Path, query: query(r.QueryStringParameters, r.MultiValueQueryStringParameters),
				keys: values(header, r.Headers, r.MultiValueHeaders), contentType: first("Content-Type", r.Headers, r.MultiValueHeaders),
				body: r.Body, base64: r.IsBase64Encoded,
			}
		},
		form: func(events.APIGatewayProxyRequest) form { return singleAndMulti },
		parts: func(r events.APIGatewayProxyResponse) parts {
			return parts{StatusCode: r.StatusCode, Headers: r.Headers, MultiValueHeaders: r.MultiValueHeaders, Body: r.Body, IsBase64Encoded: r.IsBase64Encoded}
		},
	})
}

// FunctionURL is [APIGatewayV2] for a Lambda function URL whose invoke mode is BUFFERED.
func FunctionURL(op *idem.Operation[events.LambdaFunctionURLResponse], tenant func(context.Context, events.LambdaFunctionURLRequest) (string, error), h func(context.Context, events.LambdaFunctionURLRequest) (events.LambdaFunctionURLResponse, error), opts *HTTPOptions[events.LambdaFunctionURLRequest]) lambda.Handler {
	return wrapHTTP("FunctionURL", op, tenant, h, opts, integration[events.LambdaFunctionURLRequest, events.LambdaFunctionURLResponse]{
		source: functionURL,
		facts: func(r events.LambdaFunctionURLRequest, header string) facts {
			return facts{
				method: r.RequestContext.HTTP.Method, path: r.RawPath, query: r.RawQueryString,
				keys: values(header, r.Headers, nil), contentType: first("Content-Type", r.Headers, nil),
				body: r.Body, base64: r.IsBase64Encoded,
			}
		},
		form: func(events.LambdaFunctionURLRequest) form { return singleAndCookies },
		parts: func(r events.LambdaFunctionURLResponse) parts {
			return parts{StatusCode: r.StatusCode, Headers: r.Headers, Cookies: r.Cookies, Body: r.Body, IsBase64Encoded: r.IsBase64Encoded}
		},
	})
}

// ALB is [APIGatewayV2] for a target group of an Application Load Balancer, with multi-value headers or without: the answer has the form
// of the request. Without them the load balancer itself drops all but the last of several keys, and has room for one Set-Cookie only.
func ALB(op *idem.Operation[events.ALBTargetGroupResponse], tenant func(context.Context, events.ALBTargetGroupRequest) (string, error), h func(context.Context, events.ALBTargetGroupRequest) (events.ALBTargetGroupResponse, error), opts *HTTPOptions[events.ALBTargetGroupRequest]) lambda.Handler {
	return wrapHTTP("ALB", op, tenant, h, opts, integration[events.ALBTargetGroupRequest, events.ALBTargetGroupResponse]{
		source: loadBalancer,
		facts: func(r events.ALBTargetGroupRequest, header string) facts {
			return facts{
				method: r.HTTPMethod, path: r.Path, query: query(r.QueryStringParameters, r.MultiValueQueryStringParameters),
				keys: values(header, r.Headers, r.MultiValueHeaders), contentType: first("Content-Type", r.Headers, r.MultiValueHeaders),
				body: r.Body, base64: r.IsBase64Encoded,
			}
		},
		form: func(r events.ALBTargetGroupRequest) form {
			if len(r.MultiValueHeaders) > 0 {
				return multiOnly
			}
			return singleOnly
		},
		parts: func(r events.ALBTargetGroupResponse) parts {
			return parts{StatusCode: r.StatusCode, StatusDescription: r.StatusDescription, Headers: r.Headers, MultiValueHeaders: r.MultiValueHeaders, Body: r.Body, IsBase64Encoded: r.IsBase64Encoded}
		},
	})
}
