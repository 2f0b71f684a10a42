package lambdawrap

import (
	"encoding/json"
	"time"
)

// Destination is the record that Lambda sends to an OnSuccess or OnFailure destination that is a function. As In of [Wrap] it
// says that destination records are what the handler is for; every other handler refuses them.
//
// Its own identity is RequestContext.RequestID with the condition. To take the original request up again under the key
// that it had, an id function takes key and Payload from RequestPayload.
type Destination struct {
	Version        string    `json:"version"`
	Timestamp      time.Time `json:"timestamp"`
	RequestContext struct {
		RequestID              string `json:"requestId"`
		FunctionArn            string `json:"functionArn"`
		Condition              string `json:"condition"` // Success, RetriesExhausted or EventAgeExceeded
		ApproximateInvokeCount int    `json:"approximateInvokeCount"`
	} `json:"requestContext"`
	RequestPayload  json.RawMessage `json:"requestPayload"`
	ResponsePayload json.RawMessage `json:"responsePayload"`
}
