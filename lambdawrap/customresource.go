package lambdawrap

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/idem-go/idem"
)

// Resource is what a custom resource's function answered, as it is recorded.
type Resource struct {
	PhysicalID string                     `json:"physicalId"`
	Data       map[string]json.RawMessage `json:"data,omitempty"`
	_          struct{}
}

// CustomResource guards the function of a CloudFormation custom resource, in place of cfn.LambdaWrap. Give what it returns to
// lambda.Start.
//
// The key is the stack, the resource and RequestId; the payload is everything but ResponseURL. A success, also one that was
// recorded earlier, is sent to CloudFormation with the same PhysicalResourceId and data; so is the function's own error, as
// FAILED, and so is a panic. If it could not be sent the invocation fails, and Lambda's retry sends what was recorded. A refusal (in progress,
// indeterminate and so on) is not sent: it is returned to Lambda, because CloudFormation would take FAILED for the end and
// roll back what another attempt is still doing.
//
// Where the function gives no PhysicalResourceID, the earlier one or, for a new resource, RequestId is sent. The operation is
// SingleTenant. CustomResource panics where an argument is nil.
func CustomResource(op *idem.Operation[Resource], f cfn.CustomResourceFunction) lambda.Handler {
	if op == nil || f == nil {
		panic("lambdawrap: CustomResource needs an operation and a function")
	}
	return handler(func(ctx context.Context, event []byte) ([]byte, error) {
		var e cfn.Event
		var sent map[string]json.RawMessage
		if problem := unfit(sourceOf(event), customResource); problem != "" {
			return nil, &idem.RequestError{Operation: op.Name(), Problem: problem}
		}
		if json.Unmarshal(event, &e) != nil || json.Unmarshal(event, &sent) != nil || e.RequestID == "" {
			return nil, &idem.RequestError{Operation: op.Name(), Problem: "the event does not decode as a custom resource request with a RequestId"}
		}
		delete(sent, "ResponseURL")
		answer := cfn.NewResponse(&e)
		var failure error // the function's own
		returned := false
		defer func() {
			if !returned { // a panic, which goes on
				answer.Status, answer.Reason, answer.PhysicalResourceID = cfn.StatusFailed, "the function panicked: see its log", fallbackID(e)
				answer.Send() // if it cannot be sent, CloudFormation's own timeout ends it
			}
		}()
		res, err := op.Do(ctx, idem.Request{Key: naturalKey("cfn", e.StackID, e.LogicalResourceID, e.RequestID), Payload: sent}, func(ctx context.Context) (Resource, error) {
			id, data, err := f(ctx, e)
			if err != nil {
				failure = err
				return Resource{}, err
			}
			r, err := resourceOf(id, data, e)
			failure = err
			return r, err
		})
		returned = true
		switch final, ok := err.(*idem.FailedError); {
		case err == nil:
			answer.Status, answer.PhysicalResourceID, answer.Data = cfn.StatusSuccess, res.Value.PhysicalID, make(map[string]any, len(res.Value.Data))
			for name, v := range res.Value.Data {
				answer.Data[name] = v
			}
		case ok || failure != nil:
			answer.Status, answer.Reason, answer.PhysicalResourceID = cfn.StatusFailed, err.Error(), fallbackID(e)
			if ok {
				answer.Reason = final.Message
			}
		default:
			return nil, err
		}
		if err := answer.Send(); err != nil {
			return nil, &SendError{op.Name()}
		}
		return []byte("null"), nil
	})
}

// SendError: CloudFormation could not be told what became of a custom resource. What was done is recorded; a retry sends it.
type SendError struct{ Operation string }

func (e *SendError) Error() string {
	return "idem: " + e.Operation + ": the outcome is recorded, but could not be sent to CloudFormation" // the cause quotes a signed URL
}

// resourceOf encodes data member by member, so that numbers keep their digits.
func resourceOf(id string, data map[string]any, e cfn.Event) (Resource, error) {
	r := Resource{PhysicalID: id}
	if id == "" {
		r.PhysicalID = fallbackID(e)
	}
	for name, v := range data {
		b, err := json.Marshal(v)
		if err != nil {
			return r, err // what it did is not known to be undone
		}
		if r.Data == nil {
			r.Data = make(map[string]json.RawMessage, len(data))
		}
		r.Data[name] = b
	}
	return r, nil
}

// fallbackID is as cfn.LambdaWrap has it.
func fallbackID(e cfn.Event) string {
	if e.RequestType == cfn.RequestCreate || e.PhysicalResourceID == "" {
		return e.RequestID
	}
	return e.PhysicalResourceID
}
