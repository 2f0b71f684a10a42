package endtoend

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/idem-go/idem/examples/payment/provider/ledger"
	"github.com/idem-go/idem/examples/payment/psp"
	"github.com/idem-go/idem/internal/engine"
	"github.com/idem-go/idem/internal/lab"
)

// Ten messages, of which one is poison, one kills its function after the charge, and one charges and gets no answer in time. SQS
// redelivers until all is done: the provider's ledger shows one charge per order, and only the poison is in the dead letter queue.
func TestQueueIsRedeliveredUntilDone(t *testing.T) {
	engine.Each(t, func(t *testing.T, e engine.Engine) {
		if e.Name != "ministack" {
			t.Skip(e.Name + " has neither Lambda nor SQS: ministack has both")
		}
		t.Parallel()
		books, err := ledger.Open(filepath.Join(t.TempDir(), "ledger"))
		if err != nil {
			t.Fatal(err)
		}
		bank := ledger.NewServer(books)
		bank.HonourKeys(false)
		server := httptest.NewServer(bank)
		t.Cleanup(func() { bank.Close(); server.Close(); books.Close() })
		provider, err := lab.NewProxy(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(provider.Close)
		table := e.Table(t)
		kmsURL, key := engine.Key(t)
		m := ministack{t, e.URL}
		dead := m.queue("dead-"+table, nil)
		queue := m.queue("orders-"+table, map[string]string{
			"VisibilityTimeout": "9", // above the function's timeout plus the lease's margin: in progress is then rare
			"RedrivePolicy":     fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":5}`, dead.arn),
		})
		of := func(id string) func([]byte) bool {
			return func(body []byte) bool { return bytes.Contains(body, []byte(`"order":"`+id+`"`)) }
		}
		provider.After(lab.Match{Method: "POST", Body: of("o-3"), N: 1}, lab.Kill(func() error { return killBootstrap(table) }))
		unanswered := lab.NewGate()
		provider.After(lab.Match{Method: "POST", Body: of("o-6"), N: 1}, lab.Hold(unanswered))
		for k := range 10 {
			body, _ := json.Marshal(psp.Order{Merchant: "acme", ID: fmt.Sprint("o-", k), Amount: 100, Currency: "EUR"})
			if k == 8 {
				body = []byte(`{"poison":`)
			}
			m.sqs("SendMessage", map[string]any{"QueueUrl": queue.url, "MessageBody": string(body)})
		}
		m.function("queue-"+table, "github.com/idem-go/idem/examples/paymentqueue", 3, map[string]string{
			"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
			"AWS_ENDPOINT_URL_DYNAMODB": e.URL, "AWS_ENDPOINT_URL_KMS": kmsURL, "IDEM_KMS_KEY": key, "IDEM_TABLE": table, "PROVIDER_URL": provider.URL(),
		})
		m.mapping("queue-"+table, queue.arn)

		done, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		for m.waiting(dead) < 1 || len(books.All()) < 9 || m.waiting(queue) > 0 {
			select {
			case <-time.After(500 * time.Millisecond):
			case <-done.Done():
				t.Fatalf("not done: %d charges, %d messages, %d dead", len(books.All()), m.waiting(queue), m.waiting(dead))
			}
		}
		unanswered.Open()
		charges := map[string]int{}
		for _, c := range books.All() {
			charges[c.Order.Order]++
		}
		for k := range 10 {
			id, want := fmt.Sprint("o-", k), 1
			if k == 8 {
				want = 0
			}
			if charges[id] != want {
				t.Errorf("%s was charged %d times, want %d", id, charges[id], want)
			}
		}
		if n := m.waiting(dead); n != 1 {
			t.Errorf("%d messages are dead, want the poison alone", n)
		}
	})
}

// killBootstrap kills the one process of the function that has this table.
func killBootstrap(table string) error {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		exe, err := os.Readlink(dir + "/exe")
		if err != nil || filepath.Base(exe) != "bootstrap" {
			continue
		}
		env, _ := os.ReadFile(dir + "/environ")
		if !bytes.Contains(env, []byte("IDEM_TABLE="+table+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	}
	return errors.New("the function has no process")
}

// ministack is asked with plain requests: it does not check signatures.
type ministack struct {
	t   *testing.T
	url string
}

type queue struct{ url, arn string }

func (m ministack) call(method, path, target string, in any) map[string]any {
	m.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		m.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(m.t.Context(), method, m.url+path, bytes.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	service := "lambda"
	req.Header.Set("Content-Type", "application/json")
	if target != "" {
		service = "sqs"
		req.Header.Set("X-Amz-Target", target)
		req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	}
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/eu-central-1/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		m.t.Fatalf("%s %s%s: %s %s %v", method, path, target, res.Status, text, err)
	}
	out := map[string]any{}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &out); err != nil {
			m.t.Fatalf("%s %s%s: %s", method, path, target, text)
		}
	}
	return out
}

func (m ministack) sqs(operation string, in any) map[string]any {
	m.t.Helper()
	return m.call("POST", "/", "AmazonSQS."+operation, in)
}

func (m ministack) queue(name string, attributes map[string]string) queue {
	m.t.Helper()
	in := map[string]any{"QueueName": name}
	if attributes != nil {
		in["Attributes"] = attributes
	}
	url := m.sqs("CreateQueue", in)["QueueUrl"].(string)
	got := m.sqs("GetQueueAttributes", map[string]any{"QueueUrl": url, "AttributeNames": []string{"QueueArn"}})
	return queue{url, got["Attributes"].(map[string]any)["QueueArn"].(string)}
}

// waiting counts messages that are in the queue, visible or not.
func (m ministack) waiting(q queue) int {
	m.t.Helper()
	names := []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"}
	got := m.sqs("GetQueueAttributes", map[string]any{"QueueUrl": q.url, "AttributeNames": names})["Attributes"].(map[string]any)
	sum := 0
	for _, name := range names {
		n, err := strconv.Atoi(fmt.Sprint(got[name]))
		if err != nil {
			m.t.Fatal(err)
		}
		sum += n
	}
	return sum
}

func (m ministack) function(name, pkg string, timeout int, env map[string]string) {
	m.t.Helper()
	binary := filepath.Join(m.t.TempDir(), "bootstrap")
	build := exec.CommandContext(m.t.Context(), "go", "build", "-tags", "lambda.norpc", "-o", binary, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		m.t.Fatalf("build: %v\n%s", err, out)
	}
	code, err := os.ReadFile(binary)
	if err != nil {
		m.t.Fatal(err)
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Store}
	header.SetMode(0o755)
	w, err := z.CreateHeader(header)
	if err == nil {
		_, err = w.Write(code)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		m.t.Fatal(err)
	}
	m.call("POST", "/2015-03-31/functions", "", map[string]any{
		"FunctionName": name, "Runtime": "provided.al2023", "Handler": "bootstrap", "Role": "arn:aws:iam::000000000000:role/test",
		"Timeout": timeout, "Code": map[string]any{"ZipFile": archive.Bytes()}, "Environment": map[string]any{"Variables": env},
	})
	m.t.Cleanup(func() {
		req, _ := http.NewRequest(http.MethodDelete, m.url+"/2015-03-31/functions/"+name, nil)
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
		}
	})
}

func (m ministack) mapping(function, source string) {
	m.t.Helper()
	id := m.call("POST", "/2015-03-31/event-source-mappings", "", map[string]any{
		"FunctionName": function, "EventSourceArn": source, "BatchSize": 10, "Enabled": true, "FunctionResponseTypes": []string{"ReportBatchItemFailures"},
	})["UUID"].(string)
	m.t.Cleanup(func() {
		req, _ := http.NewRequest(http.MethodDelete, m.url+"/2015-03-31/event-source-mappings/"+id, nil)
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
		}
	})
}
