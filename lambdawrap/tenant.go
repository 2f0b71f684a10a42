package lambdawrap

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

// The functions below are tenant functions for the HTTP adapters, or for use in an id function. None of them puts a token, a
// session or a credential's id into a tenant: these change from one delivery of a request to the next.

var (
	errNoTenantID = errors.New("the invocation has no tenant id: is the function in tenant isolation mode?")
	errNoSubject  = errors.New("the request has no verified JWT with iss and sub: does its route have a JWT authorizer?")
	errNoCaller   = errors.New("the request has no IAM caller: does its route use IAM authorization?")
	errNoAPIKey   = errors.New("the request has no API key id: does its method require an API key?")
)

// TenantID is the tenant of a function in tenant isolation mode, as Lambda tells it. It is an error if there is none.
func TenantID[Req any](ctx context.Context, _ Req) (string, error) {
	lc, ok := lambdacontext.FromContext(ctx)
	if !ok || lc.TenantID == "" {
		return "", errNoTenantID
	}
	return lc.TenantID, nil
}

// JWTSubject is the subject that a JWT authorizer verified, with its issuer in front: "iss|sub". It is for events of
// [APIGatewayV2] with a JWT authorizer and of [APIGatewayV1] with a Cognito user pool's. It is an error where there is none.
func JWTSubject[Req any](_ context.Context, r Req) (string, error) {
	var iss, sub string
	switch r := any(r).(type) {
	case events.APIGatewayV2HTTPRequest:
		if a := r.RequestContext.Authorizer; a != nil && a.JWT != nil {
			iss, sub = a.JWT.Claims["iss"], a.JWT.Claims["sub"]
		}
	case events.APIGatewayProxyRequest:
		claims, _ := r.RequestContext.Authorizer["claims"].(map[string]any)
		iss, _ = claims["iss"].(string)
		sub, _ = claims["sub"].(string)
	}
	if iss == "" || sub == "" {
		return "", errNoSubject
	}
	return iss + "|" + sub, nil
}

// IAMCaller is who signed a request for an API or function URL with IAM authorization: a Cognito identity, else the ARN of a user or a
// role. A role's session is not part of it, since it is another one after every renewal: all who assume one role are one
// tenant. It is an error where there is none.
func IAMCaller[Req any](_ context.Context, r Req) (string, error) {
	var arn, cognito string
	switch r := any(r).(type) {
	case events.APIGatewayV2HTTPRequest:
		if a := r.RequestContext.Authorizer; a != nil && a.IAM != nil {
			arn, cognito = a.IAM.UserARN, a.IAM.CognitoIdentity.IdentityID
		}
	case events.APIGatewayProxyRequest:
		arn, cognito = r.RequestContext.Identity.UserArn, r.RequestContext.Identity.CognitoIdentityID
	case events.LambdaFunctionURLRequest:
		if a := r.RequestContext.Authorizer; a != nil && a.IAM != nil {
			arn = a.IAM.UserARN
		}
	}
	switch {
	case cognito != "":
		return "cognito:" + cognito, nil
	case arn == "":
		return "", errNoCaller
	}
	return withoutSession(arn), nil
}

// withoutSession cuts the session's name off arn:aws:sts::account:assumed-role/role/session.
func withoutSession(arn string) string {
	role, ok := strings.CutPrefix(resource(arn), "assumed-role/")
	if !ok {
		return arn
	}
	if _, session, ok := strings.Cut(role, "/"); ok {
		return strings.TrimSuffix(arn, "/"+session)
	}
	return arn
}

// resource is the sixth part of an ARN.
func resource(arn string) string {
	if parts := strings.SplitN(arn, ":", 6); len(parts) == 6 {
		return parts[5]
	}
	return ""
}

// APIKeyID is the id of the API key that a REST API request came with, never the key itself. An API key identifies a client of
// the API; it does not authenticate it. It is an error where there is none.
func APIKeyID(_ context.Context, r events.APIGatewayProxyRequest) (string, error) {
	if id := r.RequestContext.Identity.APIKeyID; id != "" {
		return id, nil
	}
	return "", errNoAPIKey
}
