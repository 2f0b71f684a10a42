package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/dynamo"
	"github.com/idem-go/idem/examples/payment/psp"
	"github.com/idem-go/idem/internal/lab"
	"github.com/idem-go/idem/internal/sam"
)

const (
	module       = "github.com/idem-go/idem"
	environments = 4
	timeout      = 3 * time.Second // the function's
)

// stage is everything that takes part: engine, table, provider, the function's environments, and the proxies between.
type stage struct {
	dir              string
	client           *dynamodb.Client
	table            string
	store            *dynamo.Store
	engine, provider *lab.Proxy
	bank             *exec.Cmd
	bankURL          string
	envs             []*lab.Environment
	original         string // the first answer

	deliveries      atomic.Int64
	step            int
	expected, wrong int
}

func newStage(ctx context.Context) (s *stage, err error) {
	name, engineURL, err := first("IDEM_TEST_DYNAMODB")
	if err != nil {
		return nil, err
	}
	kmsName, kmsURL, err := first("IDEM_TEST_KMS")
	if err != nil {
		return nil, err
	}
	s = &stage{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "idem-demo-"); err != nil {
		return s, err
	}
	const region, table = "eu-central-1", "idem-demo"
	s.table = fmt.Sprintf("%s-%d", table, time.Now().UnixNano())
	test := credentials.NewStaticCredentialsProvider("test", "test", "")
	s.client = dynamodb.New(dynamodb.Options{Region: region, BaseEndpoint: &engineURL, HTTPClient: awshttp.NewBuildableClient(), Credentials: test})
	key, err := kms.New(kms.Options{Region: region, BaseEndpoint: &kmsURL, HTTPClient: awshttp.NewBuildableClient(), Credentials: test}).CreateKey(ctx, nil)
	if err != nil {
		return s, err
	}
	template, err := sam.Template()
	if err != nil {
		return s, err
	}
	if err := sam.Create(ctx, s.client, s.table, template); err != nil {
		return s, err
	}
	if s.store, err = dynamo.New(s.client, s.table, nil); err != nil {
		return s, err
	}
	fmt.Println("Building the payment function and the provider …")
	if err := s.startProvider(ctx); err != nil {
		return s, fmt.Errorf("provider: %w", err)
	}
	if s.engine, err = lab.NewProxy(engineURL); err != nil {
		return s, err
	}
	if s.provider, err = lab.NewProxy(s.bankURL); err != nil {
		return s, err
	}
	function, err := lab.Build(ctx, module+"/examples/payment", s.dir)
	if err != nil {
		return s, err
	}
	for range environments {
		env, err := function.Start(ctx, &lab.Options{Timeout: timeout, Name: "payment", Env: map[string]string{
			"AWS_REGION": region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
			"AWS_ENDPOINT_URL_DYNAMODB": s.engine.URL(), "IDEM_TABLE": s.table, "PROVIDER_URL": s.provider.URL(),
			"AWS_ENDPOINT_URL_KMS": kmsURL, "IDEM_KMS_KEY": *key.KeyMetadata.Arn,
		}})
		if err != nil {
			return s, err
		}
		s.envs = append(s.envs, env)
	}
	fmt.Printf("%d environments of the payment function (timeout %v) on the Lambda runtime interface emulator,\n"+
		"a table on %s, a key on %s, and a provider that does not honour idempotency keys.\n", environments, timeout, name, kmsName)
	return s, nil
}

// first is the first endpoint of those that make demo started.
func first(variable string) (name, url string, err error) {
	first, _, _ := strings.Cut(os.Getenv(variable), ",")
	name, url, ok := strings.Cut(first, "=")
	if !ok {
		name, url = "endpoint", first
	}
	if url == "" {
		return "", "", fmt.Errorf("%s names no endpoint: run make demo", variable)
	}
	return name, url, nil
}

// startProvider runs the provider as a process of its own.
func (s *stage) startProvider(ctx context.Context) error {
	binary := filepath.Join(s.dir, "provider")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, module+"/examples/payment/provider").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	s.bank = exec.CommandContext(ctx, binary, "-ledger", filepath.Join(s.dir, "ledger.jsonl"), "-keys", "off")
	s.bank.Stderr = os.Stderr
	s.bank.Cancel = func() error { return s.bank.Process.Signal(syscall.SIGTERM) }
	out, err := s.bank.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.bank.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	s.bankURL = strings.TrimSpace(line)
	return err
}

func (s *stage) close() {
	for _, e := range s.envs {
		e.Close()
	}
	for _, p := range []*lab.Proxy{s.engine, s.provider} {
		if p != nil {
			p.Close()
		}
	}
	if s.bank != nil && s.bank.Process != nil {
		s.bank.Process.Signal(syscall.SIGTERM)
		s.bank.Wait()
	}
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// answer is what Lambda gives to whoever invoked the function.
type answer struct {
	body, fault, message string
}

func (a answer) String() string {
	var c psp.Charge
	switch {
	case a.fault != "" && a.message != "":
		return a.fault + ", " + strings.TrimPrefix(a.message, "idem: ")
	case a.fault != "":
		return a.fault
	case json.Unmarshal([]byte(a.body), &c) != nil:
		return a.body
	}
	return fmt.Sprintf("charge %s for %s of %s, %d.%02d %s", c.ID, c.Order, c.Merchant, c.Amount/100, c.Amount%100, c.Currency)
}

// deliver invokes the function in one environment.
func (s *stage) deliver(ctx context.Context, env int, o psp.Order) answer {
	s.deliveries.Add(1)
	event, err := json.Marshal(o)
	if err != nil {
		return answer{fault: err.Error()}
	}
	body, _, fault, err := s.envs[env].Invoke(ctx, event, "")
	if err != nil {
		return answer{fault: err.Error()}
	}
	a := answer{body: string(body), fault: fault}
	var e struct{ ErrorMessage string }
	if fault != "" && json.Unmarshal(body, &e) == nil {
		a.message = e.ErrorMessage
	}
	return a
}

func id(o psp.Order) idem.ID {
	return idem.ID{Tenant: o.Merchant, Operation: "charge", Key: sha256.Sum256([]byte(o.ID))}
}

// state shows and checks what the table has.
func (s *stage) state(ctx context.Context, o psp.Order, want idem.State) {
	r, err := s.store.Load(ctx, id(o))
	if err != nil {
		s.check(false, "the record: "+err.Error())
		return
	}
	what := fmt.Sprintf("the record is %v", r.State)
	if r.State == idem.Indeterminate {
		what += fmt.Sprintf(" (%v)", r.Reason)
	}
	s.check(r.State == want, what)
}

func (s *stage) lease(ctx context.Context, o psp.Order) time.Time {
	r, err := s.store.Load(ctx, id(o))
	if err != nil {
		return time.Now().Add(timeout + 5*time.Second)
	}
	return r.Lease
}

// stored is everything that the table has, as text, and how many bytes of it are a sealed result.
func (s *stage) stored(ctx context.Context) (text string, sealed int, err error) {
	out, err := s.client.Scan(ctx, &dynamodb.ScanInput{TableName: &s.table})
	if err != nil {
		return "", 0, err
	}
	for _, item := range out.Items {
		for name, v := range item {
			switch v := v.(type) {
			case *types.AttributeValueMemberB:
				if name == "rb" {
					sealed += len(v.Value)
				}
				text += string(v.Value)
			case *types.AttributeValueMemberS:
				text += v.Value
			}
		}
	}
	return text, sealed, nil
}

// behave tells the provider what the next charge does.
func (s *stage) behave(ctx context.Context, next ...string) error {
	body, err := json.Marshal(map[string]any{"next": next})
	if err != nil {
		return err
	}
	_, err = s.bankCall(ctx, http.MethodPost, "/behave", body)
	return err
}

// charges reads the ledger and checks how many charges this step has added.
func (s *stage) charges(ctx context.Context, more int) error {
	s.expected += more
	text, err := s.bankCall(ctx, http.MethodGet, "/ledger", nil)
	if err != nil {
		return err
	}
	var ledger struct{ Charges []json.RawMessage }
	if err := json.Unmarshal(text, &ledger); err != nil {
		return err
	}
	s.check(len(ledger.Charges) == s.expected, fmt.Sprintf("charges in the provider's ledger: %d, must be %d", len(ledger.Charges), s.expected))
	return nil
}

func (s *stage) bankCall(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.bankURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("provider: %s %s: %s", method, path, res.Status)
	}
	return text, err
}

func (s *stage) title(text string) {
	s.step++
	fmt.Printf("%d. %s\n", s.step, text)
}

func (s *stage) check(ok bool, text string) {
	mark := "ok"
	if !ok {
		mark = "NO"
		s.wrong++
	}
	fmt.Printf("   %s  %s\n", mark, text)
}
