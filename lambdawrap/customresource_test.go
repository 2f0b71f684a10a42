package lambdawrap_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

// cloudFormation takes the answers of custom resources.
type cloudFormation struct {
	*httptest.Server
	answers []string
	down    bool
}

func newCloudFormation(t *testing.T) *cloudFormation {
	c := &cloudFormation{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.down {
			w.WriteHeader(503)
			return
		}
		b, _ := io.ReadAll(r.Body)
		c.answers = append(c.answers, string(b))
	}))
	t.Cleanup(c.Close)
	return c
}

// event is a request as CloudFormation sends it. Its URL is signed anew each time.
func (c *cloudFormation) event(kind, request string) []byte {
	b, _ := json.Marshal(map[string]any{"RequestType": kind, "RequestId": request, "ResponseURL": c.URL + "/?Signature=" + rand(), "StackId": "arn:s", "LogicalResourceId": "Zone", "ResourceType": "Custom::Zone", "ResourceProperties": map[string]any{"Name": "a"}})
	return b
}

func TestCustomResourceRunsOnceAndItsAnswerIsSentAgain(t *testing.T) {
	c, runs := newCloudFormation(t), 0
	h := lambdawrap.CustomResource(operation[lambdawrap.Resource](t, idemtest.NewMemory(t), &idem.Options{SingleTenant: true}), func(_ context.Context, e cfn.Event) (string, map[string]any, error) {
		runs++
		return "zone-1", map[string]any{"Serial": int64(1234567890123456789), "Run": runs}, nil
	})
	c.down = true
	_, err := h.Invoke(invoked(t), c.event("Create", "r-1"))
	if _, ok := err.(*lambdawrap.SendError); !ok || strings.Contains(err.Error(), "Signature") {
		t.Errorf("%T %v", err, err)
	}
	c.down = false
	for range 2 {
		if out, err := h.Invoke(invoked(t), c.event("Create", "r-1")); err != nil || string(out) != "null" {
			t.Errorf("%s, %v", out, err)
		}
	}
	const want = `{"Status":"SUCCESS","RequestId":"r-1","LogicalResourceId":"Zone","StackId":"arn:s","PhysicalResourceId":"zone-1","Data":{"Run":1,"Serial":1234567890123456789}}`
	if len(c.answers) != 2 || c.answers[0] != want || c.answers[1] != want || runs != 1 {
		t.Errorf("%d runs: %s", runs, c.answers)
	}
	if _, err := h.Invoke(invoked(t), c.event("Delete", "r-2")); err != nil || runs != 2 {
		t.Errorf("%v, %d runs", err, runs)
	}
}

// FAILED is the end for CloudFormation: it is not sent for a refusal, while another attempt may still do the work.
func TestCustomResourceThatFails(t *testing.T) {
	c := newCloudFormation(t)
	for name, fail := range map[string]error{"unknown": errors.New("who knows"), "final": idem.Final(&CardDeclined{})} {
		c.answers = nil
		h := lambdawrap.CustomResource(operation[lambdawrap.Resource](t, idemtest.NewMemory(t), &idem.Options{SingleTenant: true}), func(context.Context, cfn.Event) (string, map[string]any, error) {
			return "", nil, fail
		})
		if _, err := h.Invoke(invoked(t), c.event("Create", "r-1")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, err := h.Invoke(invoked(t), c.event("Create", "r-1"))
		switch _, held := err.(*idem.IndeterminateError); {
		case name == "unknown" && (!held || len(c.answers) != 1):
			t.Errorf("%s: %v, %s", name, err, c.answers)
		case name == "final" && (err != nil || len(c.answers) != 2 || c.answers[0] != c.answers[1]):
			t.Errorf("%s: %v, %s", name, err, c.answers)
		}
		if !strings.Contains(c.answers[0], `"Status":"FAILED"`) || !strings.Contains(c.answers[0], `"PhysicalResourceId":"r-1"`) {
			t.Errorf("%s: %s", name, c.answers[0])
		}
	}
	c.answers = nil
	store := idemtest.NewMemory(t)
	store.Fail(func(string, idem.ID) (bool, error) { return false, errors.New("down") })
	h := lambdawrap.CustomResource(operation[lambdawrap.Resource](t, store, &idem.Options{SingleTenant: true}), func(context.Context, cfn.Event) (string, map[string]any, error) {
		t.Error("ran")
		return "", nil, nil
	})
	if _, err := h.Invoke(invoked(t), c.event("Create", "r-1")); err == nil || len(c.answers) != 0 {
		t.Errorf("%v, %s", err, c.answers)
	}
}

func TestCustomResourceThatPanicsOrAnswersWhatHasNoJSON(t *testing.T) {
	c := newCloudFormation(t)
	for _, f := range []cfn.CustomResourceFunction{
		func(context.Context, cfn.Event) (string, map[string]any, error) { panic("boom") },
		func(context.Context, cfn.Event) (string, map[string]any, error) {
			return "id", map[string]any{"f": func() {}}, nil
		},
	} {
		c.answers = nil
		store := idemtest.NewMemory(t)
		h := lambdawrap.CustomResource(operation[lambdawrap.Resource](t, store, &idem.Options{SingleTenant: true}), f)
		func() {
			defer func() { recover() }()
			h.Invoke(invoked(t), c.event("Create", "r-1"))
		}()
		if len(c.answers) != 1 || !strings.Contains(c.answers[0], "FAILED") || store.Records()[0].State != idem.Indeterminate {
			t.Errorf("%s, %v", c.answers, store.Records()[0].State)
		}
	}
}
