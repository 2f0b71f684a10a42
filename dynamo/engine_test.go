package dynamo_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/idemtest"
	"github.com/idem-go/idem/internal/engine"
)

// open returns a store as another process would have it.
func open(t testing.TB, e engine.Engine, table string) *breakable {
	t.Helper()
	f := &faults{}
	client := clientOf(e.URL, f)
	s, err := dynamo.New(client, table, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Generation(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &breakable{Store: s, client: client, table: table, faults: f}
}

// breakable is a store with what the suite can use beyond the contract.
type breakable struct {
	*dynamo.Store
	client *dynamodb.Client
	table  string
	faults *faults
}

var (
	_ idemtest.Meddler = (*breakable)(nil)
	_ idemtest.Breaker = (*breakable)(nil)
)

func (b *breakable) Break(n int, applied bool) {
	b.faults.set(func(i int, r *http.Request, next http.RoundTripper) (*http.Response, error) {
		switch {
		case i >= n:
			return next.RoundTrip(r)
		case applied:
			return lose(r, next)
		}
		return nil, errors.New("connection reset by peer")
	})
}

func (b *breakable) Meddle(ctx context.Context, id idem.ID, what idemtest.Unknown) error {
	in := &dynamodb.UpdateItemInput{
		TableName:                 &b.table,
		Key:                       keyOf(id),
		ExpressionAttributeValues: map[string]types.AttributeValue{":x": &types.AttributeValueMemberN{Value: "2"}},
	}
	switch what {
	case idemtest.UnknownFormat:
		in.UpdateExpression = aws.String("SET fo = :x")
		in.ExpressionAttributeValues[":x"] = &types.AttributeValueMemberN{Value: "3"}
	case idemtest.UnknownField:
		in.UpdateExpression = aws.String("SET zz = :x")
	case idemtest.UnknownState:
		in.UpdateExpression = aws.String("SET st = :x")
		in.ExpressionAttributeValues[":x"] = &types.AttributeValueMemberS{Value: "X"}
	}
	_, err := b.client.UpdateItem(ctx, in)
	return err
}

func (b *breakable) Kept(ctx context.Context, id idem.ID) (bool, error) {
	out, err := b.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &b.table, Key: keyOf(id), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return false, err
	}
	n, ok := out.Item["zz"].(*types.AttributeValueMemberN)
	return ok && n.Value == "2", nil
}

func (b *breakable) Remove(ctx context.Context, id idem.ID) error {
	_, err := b.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &b.table, Key: keyOf(id)})
	return err
}

func (b *breakable) Tear(ctx context.Context, id idem.ID) (bool, error) {
	r, err := b.Load(ctx, id)
	n := dynamo.Bodies(r)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = b.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &b.table, Key: keyAt(dynamo.BodyKey(r, n-1))})
	return true, err
}

func keyOf(id idem.ID) map[string]types.AttributeValue { return keyAt(dynamo.Key(id)) }

func keyAt(pk string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: pk}}
}

// administered is a store that can be listed, too.
type administered struct {
	*breakable
	idem.Lister
}

func admin(t testing.TB, e engine.Engine, table string) *dynamo.Admin {
	t.Helper()
	a, err := dynamo.NewAdmin(clientOf(e.URL, nil), table, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestConformance(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		table := e.Table(t)
		idemtest.Store(t, func(tb testing.TB) idem.Store { return administered{open(tb, e, table), admin(tb, e, table)} })
	})
}

// TestRestoredTableIsRefused makes a backup and restores it under a new name, where the engine can.
func TestRestoredTableIsRefused(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		table, restored := e.Table(t), "idem-test-"+rand.Text()
		client := clientOf(e.URL, nil)
		about, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
			"pk": &types.AttributeValueMemberS{Value: "!gen"},
			"ti": &types.AttributeValueMemberS{Value: *about.Table.TableId},
			"ge": &types.AttributeValueMemberN{Value: "0"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := claim()
		if _, err := open(t, e, table).Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		backup, err := client.CreateBackup(t.Context(), &dynamodb.CreateBackupInput{TableName: &table, BackupName: aws.String("b")})
		if err != nil {
			t.Skipf("%s makes no backups: %v", e.Name, err)
		}
		_, err = client.RestoreTableFromBackup(t.Context(), &dynamodb.RestoreTableFromBackupInput{
			BackupArn: backup.BackupDetails.BackupArn, TargetTableName: &restored,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &restored})
		s, err := dynamo.New(client, restored, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(t.Context(), r.ID); !errors.Is(err, dynamo.ErrNotAdopted) {
			t.Errorf("load from a restored table: %v", err)
		}
		if _, err := s.Create(t.Context(), r); !errors.Is(err, dynamo.ErrNotAdopted) || errors.Is(err, idem.ErrAmbiguous) {
			t.Errorf("create in a restored table: %v", err)
		}
		again, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &restored})
		if err == nil {
			t.Logf("TableId %s, restored %s; RestoreSummary is there: %v", *about.Table.TableId, *again.Table.TableId, again.Table.RestoreSummary != nil)
		}
	})
}

// onFake is a store on the fake, with all that the suite can use.
type onFake struct {
	breakable
	f *fake
}

var _ idemtest.Clock = (*onFake)(nil)

func (o *onFake) Now() time.Time {
	o.f.mu.Lock()
	defer o.f.mu.Unlock()
	return time.Now().Add(o.f.skew)
}

func (o *onFake) Advance(d time.Duration) {
	o.f.mu.Lock()
	defer o.f.mu.Unlock()
	o.f.skew += d
}

func (o *onFake) Expire() { o.f.expire(o.Now()) }

func (o *onFake) Remove(_ context.Context, id idem.ID) error {
	o.f.mu.Lock()
	defer o.f.mu.Unlock()
	delete(o.f.items, `{"S":`+quoted(dynamo.Key(id))+`}`)
	return nil
}

func (o *onFake) Tear(ctx context.Context, id idem.ID) (bool, error) {
	r, err := o.Load(ctx, id)
	if err != nil || dynamo.Bodies(r) == 0 {
		return false, err
	}
	o.f.mu.Lock()
	defer o.f.mu.Unlock()
	delete(o.f.items, `{"S":`+quoted(dynamo.BodyKey(r, 0))+`}`)
	return true, nil
}

func TestConformanceOfTheFake(t *testing.T) {
	f := newFake()
	idemtest.Store(t, func(tb testing.TB) idem.Store {
		s, faults := f.open(tb, nil)
		return &onFake{breakable{Store: s, client: clientOver(f, "http://fake"), table: "records", faults: faults}, f}
	})
}

// faults is an http.RoundTripper below the SDK that does to the i-th request what its function says.
type faults struct {
	next http.RoundTripper

	mu    sync.Mutex
	fault func(i int, r *http.Request, next http.RoundTripper) (*http.Response, error)
	n     int
	calls []string // of every request
}

func (f *faults) set(fault func(int, *http.Request, http.RoundTripper) (*http.Response, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.n = fault, 0
}

// sent tells which calls went out since the last time it was asked.
func (f *faults) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *faults) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	fault, i := f.fault, f.n
	f.n++
	_, call, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	f.calls = append(f.calls, call)
	f.mu.Unlock()
	if fault == nil {
		return f.next.RoundTrip(r)
	}
	return fault(i, r, f.next)
}

// lose lets the service carry the request out and drops the answer.
func lose(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return nil, io.ErrUnexpectedEOF
}

// find is the record of a key of tenant "t" for the operation "export".
func (b *breakable) find(t *testing.T, key string) idem.Record {
	t.Helper()
	r, err := b.Load(t.Context(), idem.ID{Tenant: "t", Operation: "export", Key: sha256.Sum256([]byte(key))})
	if err != nil || r.State == 0 {
		t.Fatalf("load: %v, %v", r.State, err)
	}
	return r
}
