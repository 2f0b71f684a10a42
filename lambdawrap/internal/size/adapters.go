//go:build adapters

package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/lambdawrap"
	"github.com/idem-go/idem/observe"
)

func handler(which string) lambda.Handler {
	http.Handle("/", lambdawrap.HTTP(operation[lambdawrap.Response](), tenant[*http.Request], http.NotFoundHandler(), nil))
	return map[string]lambda.Handler{
		"wrap":     wrapped(),
		"v2":       lambdawrap.APIGatewayV2(operation[events.APIGatewayV2HTTPResponse](), tenant[events.APIGatewayV2HTTPRequest], handle[events.APIGatewayV2HTTPRequest, events.APIGatewayV2HTTPResponse], nil),
		"v1":       lambdawrap.APIGatewayV1(operation[events.APIGatewayProxyResponse](), tenant[events.APIGatewayProxyRequest], handle[events.APIGatewayProxyRequest, events.APIGatewayProxyResponse], nil),
		"url":      lambdawrap.FunctionURL(operation[events.LambdaFunctionURLResponse](), tenant[events.LambdaFunctionURLRequest], handle[events.LambdaFunctionURLRequest, events.LambdaFunctionURLResponse], nil),
		"alb":      lambdawrap.ALB(operation[events.ALBTargetGroupResponse](), tenant[events.ALBTargetGroupRequest], handle[events.ALBTargetGroupRequest, events.ALBTargetGroupResponse], nil),
		"sqs":      lambdawrap.SQS(operation[string](), lambdawrap.SNSInSQSID, handle[events.SQSMessage, string], nil),
		"kinesis":  lambdawrap.Kinesis(operation[string](), lambdawrap.KinesisID, handle[events.KinesisEventRecord, string], nil),
		"dynamodb": lambdawrap.DynamoDBStream(operation[string](), lambdawrap.DynamoDBStreamID, handle[events.DynamoDBEventRecord, string], nil),
		"kafka":    lambdawrap.Kafka(operation[string](), lambdawrap.KafkaID, handle[lambdawrap.KafkaRecord, string], nil),
		"sns":      lambdawrap.Wrap(operation[string](), lambdawrap.SNSID, handle[events.SNSEvent, string]),
		"s3":       lambdawrap.Wrap(operation[string](), lambdawrap.S3ID, handle[events.S3Event, string]),
		"bridge":   lambdawrap.Wrap(operation[string](), lambdawrap.EventBridgeID, handle[events.EventBridgeEvent, string]),
		"resource": lambdawrap.CustomResource(operation[lambdawrap.Resource](), resource),
	}[which]
}

func tenant[R any](context.Context, R) (string, error) { return "", nil }

func resource(context.Context, cfn.Event) (string, map[string]any, error) { return "", nil, nil }

func observer() func(context.Context, idem.Event) {
	emf, _ := observe.EMF(os.Stdout, nil)
	return observe.All(emf, observe.Log(slog.New(slog.NewJSONHandler(os.Stderr, nil))))
}
