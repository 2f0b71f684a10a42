package lambdawrap_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/lambdawrap"
)

// byItem is an id function that takes the key from the item, as one does that wants one effect per item and not per change.
func byItem(_ context.Context, r events.DynamoDBEventRecord) (idem.Request, error) {
	return idem.Request{Tenant: "acme", Key: r.EventName + r.Change.Keys["id"].String()}, nil
}

// asTyped has the fingerprint of the record as aws-lambda-go writes it.
func asTyped(_ context.Context, r events.DynamoDBEventRecord) (idem.Request, error) {
	return idem.Request{Key: r.EventID + " typed", Payload: r}, nil
}

// Deletions by Time to Live arrive as REMOVE. localstack/localstack#11343, jgilbert01/aws-lambda-stream PR#426.
func TestRemovalByTimeToLiveIsNotTheUsers(t *testing.T) {
	var removals []bool
	handle := func(_ context.Context, r events.DynamoDBEventRecord) (idem.None, error) {
		removals = append(removals, r.UserIdentity != nil && r.UserIdentity.PrincipalID == "dynamodb.amazonaws.com")
		return idem.None{}, nil
	}
	users := strings.Replace(strings.Replace(dynamoEvent("A1"), "INSERT", "REMOVE", 1), "NewImage", "OldImage", 1)
	ttl := strings.Replace(users, `"dynamodb":{`, `"userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},"dynamodb":{`, 1)
	natural := lambdawrap.DynamoDBStream(newOperation[idem.None](idemtest.NewMemory(t), true), lambdawrap.DynamoDBStreamID, handle, nil)
	gives(t, natural, users, numbered())
	gives(t, natural, strings.Replace(ttl, "id-A1", "id-A2", 1), numbered())
	gives(t, natural, ttl, numbered("A1")) // under the other's eventID, which DynamoDB never does
	if len(removals) != 2 || removals[0] || !removals[1] {
		t.Errorf("removals by Time to Live: %v", removals)
	}
	business := lambdawrap.DynamoDBStream(operation[idem.None](t, idemtest.NewMemory(t), nil), byItem, handle, nil)
	gives(t, business, users, numbered())
	gives(t, business, ttl, numbered("A1"))
}

// A table that was made again under its name, or whose stream was switched off and on, has another stream.
func TestStreamsOfATableAreApart(t *testing.T) {
	y := &tally{}
	h := streams[1].open(t, idemtest.NewMemory(t), y, 1)
	for _, label := range []string{"2026-12-01T00:00:00.000", "2026-12-02T00:00:00.000"} {
		gives(t, h, strings.Replace(dynamoEvent("A1"), "2026-12-01T00:00:00.000", label, 1), numbered())
	}
	expect(t, "runs", y.runs, []string{"A1", "A1"})
}

func TestImagesThatAreNotThere(t *testing.T) {
	y := &tally{}
	h := streams[1].open(t, idemtest.NewMemory(t), y, 1)
	keysOnly := strings.Replace(strings.Replace(dynamoEvent("A1"), `"NewImage":{"id":{"S":"A1"}},`, ``, 1), "NEW_IMAGE", "KEYS_ONLY", 1)
	gives(t, h, keysOnly, numbered())
	gives(t, h, strings.Replace(dynamoEvent("A1"), `"NewImage":{"id":{"S":"A1"}}`, `"NewImage":null,"OldImage":null`, 1), numbered()) // the same
	gives(t, h, dynamoEvent("A1"), numbered("A1"))
	expect(t, "runs", y.runs, []string{"A1"})
	gives(t, h, strings.Replace(dynamoEvent("A2"), `"id-A2"`, `""`, 1), numbered("A2"))
	if err := y.failed["A2"]; err == nil || !strings.Contains(err.Error(), "eventID") {
		t.Error(err)
	}
}

// Typed values panic in aws-lambda-go, while they decode, when they are read or when they are marshalled: aws-lambda-go#380,
// dynamodb-event-malformed.2.json. They fail alone, and those that DynamoDB writes are all taken.
func TestAttributeValues(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"L":[`, n) + `{"S":"x"}` + strings.Repeat(`]}`, n) }
	for value, good := range map[string]bool{
		`{"S":""}`: true, `{"N":"12345678901234567890123456789012345678"}`: true, `{"B":"AAEqQQ=="}`: true, `{"BOOL":false}`: true, `{"NULL":true}`: true,
		`{"SS":["a"]}`: true, `{"NS":["1"]}`: true, `{"BS":["AAEqQQ=="]}`: true, `{"SS":[]}`: true, `{"NS":[]}`: true, `{"BS":[]}`: true, `{"L":[]}`: true, `{"M":{}}`: true, `{"M":{"a":{"L":[{"S":"b"}]}}}`: true, deep(32): true,
		`{"BS":[1]}`: false, `{"Q":"x"}`: false, `{}`: false, `null`: false, `1`: false, `"x"`: false, `[]`: false, `{"S":1}`: false, `{"S":null}`: false, `{"N":1}`: false,
		`{"B":"="}`: false, `{"B":1}`: false, `{"BOOL":"true"}`: false, `{"NULL":null}`: false, `{"SS":"a"}`: false, `{"SS":[1]}`: false, `{"NS":[1]}`: false, `{"NS":null}`: false,
		`{"BS":["="]}`: false, `{"L":{}}`: false, `{"L":[null]}`: false, `{"L":[{"BS":[1]}]}`: false, `{"M":[]}`: false, `{"M":{"a":{}}}`: false, `{"M":null}`: false,
		`{"S":"a","N":"1"}`: false, deep(33): false, deep(1000): false,
	} {
		for _, member := range []string{"NewImage", "OldImage"} {
			store, y := idemtest.NewMemory(t), &tally{}
			h := streams[1].open(t, store, y, 1)
			event := strings.Replace(dynamoEvent("A1", "A2"), `"NewImage":{"id":{"S":"A2"}}`, `"`+member+`":{"v":`+value+`}`, 1)
			if good {
				gives(t, h, event, numbered())
				gives(t, h, event, numbered())
				expect(t, value, y.runs, []string{"A1", "A2"})
				typed := lambdawrap.DynamoDBStream(newOperation[idem.None](store, true), asTyped, func(context.Context, events.DynamoDBEventRecord) (idem.None, error) { return idem.None{}, nil }, nil)
				gives(t, typed, event, numbered())
				continue
			}
			gives(t, h, event, numbered("A2"))
			if len(y.runs) != 1 || len(store.Records()) != 1 {
				t.Errorf("%s: runs %q, %d records", value[:min(len(value), 40)], y.runs, len(store.Records()))
			}
		}
	}
	for _, keys := range []string{`null`, `{"id":{}}`, `[]`, `"x"`} {
		y := &tally{}
		gives(t, streams[1].open(t, idemtest.NewMemory(t), y, 1), strings.Replace(dynamoEvent("A1"), `"Keys":{"id":{"S":"A1"}}`, `"Keys":`+keys, 1), numbered("A1"))
	}
}

// What reaches Failed and Park of a record that does not decode can be marshalled, and says which record it is.
func TestUnreadableRecordCanBeShown(t *testing.T) {
	var shown []string
	h := lambdawrap.DynamoDBStream(newOperation[idem.None](idemtest.NewMemory(t), true), lambdawrap.DynamoDBStreamID, func(context.Context, events.DynamoDBEventRecord) (idem.None, error) {
		return idem.None{}, nil
	}, &lambdawrap.StreamOptions[events.DynamoDBEventRecord]{Failed: func(_ context.Context, r events.DynamoDBEventRecord, err error) {
		text, e := json.Marshal(r)
		if e != nil || strings.Contains(err.Error(), "s3cret") {
			t.Error(e, err)
		}
		shown = append(shown, r.EventID+" "+r.Change.SequenceNumber+" "+r.EventSourceArn[:12]+" "+string(text[:1]))
	}})
	gives(t, h, strings.Replace(dynamoEvent("A1"), `"NewImage":{"id":{"S":"A1"}}`, `"NewImage":{"s3cret":{}}`, 1), numbered("A1"))
	expect(t, "shown", shown, []string{"id-A1 1 arn:aws:dyna {"})
}

// Wrap gives a batch as a whole to its handler, decoded as aws-lambda-go does it.
func TestDecoderThatPanicsRefusesTheEvent(t *testing.T) {
	store, runs := idemtest.NewMemory(t), 0
	bad := strings.Replace(dynamoEvent("A1"), `"NewImage":{"id":{"S":"A1"}}`, `"NewImage":{"id":{"BS":[1]}}`, 1)
	refused(t, once(t, store, nil, anyKey[events.DynamoDBEvent], &runs), bad, "panicked")
	if runs != 0 || len(store.Records()) != 0 {
		t.Errorf("%d runs, %d records", runs, len(store.Records()))
	}
}

func TestUnreadableDynamoDBEvents(t *testing.T) {
	store, y := idemtest.NewMemory(t), &tally{}
	h := streams[1].open(t, store, y, 1)
	for _, event := range []string{
		``, `{}`, `{"Records":[]}`, `{"Records":[null]}`, kinesisEvent("A1"), kafkaEvent("A1"),
		strings.Replace(dynamoEvent("A1", "A2"), `"SequenceNumber":"2"`, `"SequenceNumber":null`, 1),
		strings.Replace(dynamoEvent("A1", "A2"), `"dynamodb":{`, `"x":{`, 1),
		string(testdata(t)["dynamodb-time-window-event.json"]), string(testdata(t)["dynamodb-event-malformed.2.json"]), // which is no JSON
	} {
		refused(t, h, event)
	}
	if len(store.Records()) != 0 || len(y.runs) != 0 {
		t.Errorf("%d records, runs %q", len(store.Records()), y.runs)
	}
}
