package lambdawrap

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-lambda-go/events"
)

// source is what sent an event, as far as the event tells.
type source string

const (
	unknownSource  source = "an event of no known source"
	httpAPI        source = "an API Gateway HTTP API request (payload format 2.0)"
	restAPI        source = "an API Gateway REST API request (payload format 1.0)"
	functionURL    source = "a Lambda function URL request"
	loadBalancer   source = "an Application Load Balancer request"
	lattice        source = "a VPC Lattice request"
	webSocket      source = "an API Gateway WebSocket message"
	authorizer     source = "a request to an API Gateway authorizer"
	sqs            source = "a batch of SQS messages"
	sns            source = "an SNS notification"
	s3             source = "an S3 notification"
	s3Test         source = "an S3 test event"
	kinesis        source = "a batch of Kinesis records"
	dynamoStream   source = "a batch of DynamoDB stream records"
	otherRecords   source = "a batch of records of another or of several sources"
	kafka          source = "a batch of Kafka records"
	queueBroker    source = "a batch of Amazon MQ messages"
	window         source = "a batch of a tumbling window"
	eventBridge    source = "an EventBridge event"
	array          source = "a bare array, as EventBridge Pipes sends it"
	destination    source = "a destination record of an earlier invocation"
	customResource source = "a CloudFormation custom resource request"
)

// probe is what tells sources apart.
type probe struct {
	Version        text          `json:"version"`
	Type           text          `json:"type"`
	RouteKey       text          `json:"routeKey"`
	Resource       text          `json:"resource"`
	HTTPMethod     text          `json:"httpMethod"`
	RequestContext *probeContext `json:"requestContext"`
	Records        []struct {
		EventSource text `json:"eventSource"`
	} `json:"Records"` // SNS writes EventSource, and Kafka records: both are the same to encoding/json
	Window         mark `json:"window"`
	IsFinal        mark `json:"isFinalInvokeForWindow"`
	EventSource    text `json:"eventSource"`
	DetailType     mark `json:"detail-type"`
	Detail         mark `json:"detail"`
	Source         text `json:"source"`
	RequestPayload mark `json:"requestPayload"`
	Event          text `json:"Event"`
	Bucket         text `json:"Bucket"`
	RequestType    text `json:"RequestType"`
	StackID        text `json:"StackId"`
}

type probeContext struct {
	ELB               mark `json:"elb"`
	ServiceNetworkArn text `json:"serviceNetworkArn"`
	ConnectionID      text `json:"connectionId"`
	DomainName        text `json:"domainName"`
	Condition         text `json:"condition"`
	HTTP              struct {
		Method text `json:"method"`
	} `json:"http"`
}

// text is a string member, or empty where the member is something else: what a member is differs from source to source.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	return nil
}

// mark says that a member is there and not null.
type mark bool

func (m *mark) UnmarshalJSON(b []byte) error {
	*m = string(b) != "null"
	return nil
}

// sourceOf tells what sent an event. It looks at the event's form alone; an event that does not decode has no known source.
func sourceOf(event []byte) source {
	if b := bytes.TrimLeft(event, " \t\r\n"); len(b) > 0 && b[0] == '[' {
		return array
	}
	var p probe
	switch err := json.Unmarshal(event, &p); err.(type) {
	case nil, *json.UnmarshalTypeError: // a member of another type is as if it were not there
	default:
		return unknownSource
	}
	var c probeContext
	if p.RequestContext != nil {
		c = *p.RequestContext
	}
	switch {
	case bool(p.Window && p.IsFinal):
		return window
	case p.EventSource == "aws:kafka" || p.EventSource == "SelfManagedKafka":
		return kafka
	case p.EventSource == "aws:rmq" || p.EventSource == "aws:mq":
		return queueBroker
	case p.Records != nil:
		return recordsOf(p)
	case p.Event == "s3:TestEvent" && p.Bucket != "":
		return s3Test
	case bool(p.RequestPayload) && c.Condition != "":
		return destination
	case bool(p.DetailType && p.Detail) && p.Source != "":
		return eventBridge
	case p.RequestType != "" && p.StackID != "":
		return customResource
	case p.RequestContext == nil:
		return unknownSource
	}
	return requestOf(p, c)
}

// requestOf tells who sent an HTTP request.
func requestOf(p probe, c probeContext) source {
	switch {
	case p.Type == "REQUEST" || p.Type == "TOKEN":
		return authorizer
	case c.ServiceNetworkArn != "":
		return lattice
	case c.ConnectionID != "":
		return webSocket
	case bool(c.ELB) && p.HTTPMethod != "":
		return loadBalancer
	case p.Version == "2.0" && c.HTTP.Method != "" && strings.Contains(string(c.DomainName), ".lambda-url."):
		return functionURL
	case p.Version == "2.0" && c.HTTP.Method != "" && p.RouteKey != "":
		return httpAPI
	case (p.Version == "" || p.Version == "1.0") && p.HTTPMethod != "" && p.Resource != "":
		return restAPI
	}
	return unknownSource
}

// recordsOf tells whose records these are, if all are of one source.
func recordsOf(p probe) source {
	if len(p.Records) == 0 {
		return otherRecords
	}
	for _, r := range p.Records[1:] {
		if r.EventSource != p.Records[0].EventSource {
			return otherRecords
		}
	}
	switch p.Records[0].EventSource {
	case "aws:sqs":
		return sqs
	case "aws:sns":
		return sns
	case "aws:s3":
		return s3
	case "aws:kinesis":
		return kinesis
	case "aws:dynamodb":
		return dynamoStream
	}
	return otherRecords
}

// present says that a member is there and not null.
func present(m json.RawMessage) bool { return len(m) > 0 && string(m) != "null" }

// sourceFor is the one source of an input type of aws-lambda-go, or of a pointer to it; else empty.
func sourceFor(in reflect.Type) source {
	if in.Kind() == reflect.Pointer {
		in = in.Elem()
	}
	switch in {
	case reflect.TypeFor[events.APIGatewayV2HTTPRequest]():
		return httpAPI
	case reflect.TypeFor[events.APIGatewayProxyRequest]():
		return restAPI
	case reflect.TypeFor[events.LambdaFunctionURLRequest]():
		return functionURL
	case reflect.TypeFor[events.ALBTargetGroupRequest]():
		return loadBalancer
	case reflect.TypeFor[events.SQSEvent]():
		return sqs
	case reflect.TypeFor[events.SNSEvent]():
		return sns
	case reflect.TypeFor[events.S3Event]():
		return s3
	case reflect.TypeFor[events.KinesisEvent]():
		return kinesis
	case reflect.TypeFor[events.DynamoDBEvent]():
		return dynamoStream
	case reflect.TypeFor[events.KafkaEvent]():
		return kafka
	case reflect.TypeFor[events.EventBridgeEvent]():
		return eventBridge
	case reflect.TypeFor[cfn.Event]():
		return customResource
	case reflect.TypeFor[Destination]():
		return destination
	}
	return ""
}
