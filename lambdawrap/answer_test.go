package lambdawrap_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

// What a handler gives in a form that its integration does not read is brought into the one it reads.
func TestAnswersHaveTheFormOfTheirIntegration(t *testing.T) {
	single := map[string]string{"Link": "old", "A": "1"}
	multi := map[string][]string{"link": {"x", "y"}, "Set-Cookie": {"b=2", "c=3"}, "Empty": {}}
	cookies := append(make([]string, 0, 4), "a=1")

	v2 := lambdawrap.APIGatewayV2(operation[events.APIGatewayV2HTTPResponse](t, idemtest.NewMemory(t), nil), acme, func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		return events.APIGatewayV2HTTPResponse{StatusCode: 500, Headers: single, MultiValueHeaders: multi, Cookies: cookies}, nil
	}, nil)
	v1 := lambdawrap.APIGatewayV1(operation[events.APIGatewayProxyResponse](t, idemtest.NewMemory(t), nil), acme, func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		return events.APIGatewayProxyResponse{StatusCode: 500, Headers: single, MultiValueHeaders: multi}, nil
	}, nil)
	alb := lambdawrap.ALB(operation[events.ALBTargetGroupResponse](t, idemtest.NewMemory(t), nil), acme, func(context.Context, events.ALBTargetGroupRequest) (events.ALBTargetGroupResponse, error) {
		return events.ALBTargetGroupResponse{StatusCode: 500, StatusDescription: "500 Oh", Headers: single, MultiValueHeaders: multi}, nil
	}, nil)
	for _, guarded := range []bool{false, true} {
		s := payment("k"+rand(), func(s *sent) {
			if !guarded {
				s.method = "GET"
			}
		})
		for _, c := range []struct {
			handler interface {
				Invoke(context.Context, []byte) ([]byte, error)
			}
			event any
			want  string
		}{
			{v2, v2Event(s), `{"statusCode":500,"headers":{"A":"1","link":"x, y"},"cookies":["a=1","b=2","c=3"],"body":"","isBase64Encoded":false}`},
			{v1, v1Event(s), `{"statusCode":500,"headers":{"A":"1","Link":"old"},"multiValueHeaders":{"Empty":[],"Set-Cookie":["b=2","c=3"],"link":["x","y"]},"body":"","isBase64Encoded":false}`},
			{alb, albEvent(s, false), `{"statusCode":500,"statusDescription":"500 Oh","headers":{"A":"1","Set-Cookie":"b=2","link":"x, y"},"body":"","isBase64Encoded":false}`},
			{alb, albEvent(payment("l"+rand(), func(s *sent) {
				if !guarded {
					s.method = "GET"
				}
			}), true), `{"statusCode":500,"statusDescription":"500 Oh","multiValueHeaders":{"A":["1"],"Empty":[],"Set-Cookie":["b=2","c=3"],"link":["x","y"]},"body":"","isBase64Encoded":false}`},
		} {
			event, _ := json.Marshal(c.event)
			got, err := c.handler.Invoke(invoked(t), event)
			if err != nil || string(got) != c.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
			}
		}
	}
	if cookies[:4][1] != "" || len(single) != 2 || len(multi) != 3 {
		t.Errorf("the handler's own %q, %q, %q have changed", cookies[:4], single, multi)
	}
}
