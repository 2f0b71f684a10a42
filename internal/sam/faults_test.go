package sam_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// planted are faults of a template that deploys, or nearly: each is one replacement. Those that cfn-lint finds by itself (an
// output without its condition, a type that does not exist) are left to make lint-template.
var planted = []struct{ name, old, new string }{
	{"another TTL attribute", "AttributeName: ex,", "AttributeName: expires,"},
	{"TTL off", "AttributeName: ex, Enabled: true", "AttributeName: ex, Enabled: false"},
	{"another index", "IndexName: indeterminate", "IndexName: unknown"},
	{"another type of key", "{AttributeName: ia, AttributeType: N}", "{AttributeName: ia, AttributeType: S}"},
	{"table not retained", "DeletionPolicy: Retain", "DeletionPolicy: Delete"},
	{"no recovery", "PointInTimeRecoveryEnabled: true", "PointInTimeRecoveryEnabled: false"},
	{"no deletion protection", "      DeletionProtectionEnabled: !Ref DeletionProtection\n", ""},
	{"no encryption at rest", "{SSEEnabled: true, SSEType: KMS}", "{SSEEnabled: false}"},
	{"deletes by PartiQL", ", dynamodb:PartiQLDelete]", "]"},
	{"deletes denied to the break-glass role alone", "ArnNotLike", "ArnLike"},
	{"PutItem granted", "Action: dynamodb:UpdateItem", "Action: [dynamodb:UpdateItem, dynamodb:PutItem]"},
	{"GetItem not granted", "[dynamodb:GetItem, dynamodb:DescribeTable]", "dynamodb:DescribeTable"},
	{"control item may be written", "['1#*']", "['*']"},
	{"policy for any table", "Resource: !GetAtt RecordsTable.Arn", "Resource: '*'"},
	{"no tenant in the context", "[kmsenc, ns, operation, tenant]", "[kmsenc, ns, operation]"},
	{"operation must not be there", "kms:EncryptionContext:operation: 'false'", "kms:EncryptionContext:operation: 'true'"},
	{"any namespace", "                kms:EncryptionContext:ns: !Ref Namespace\n", ""},
	{"key does not rotate", "EnableKeyRotation: true", "EnableKeyRotation: false"},
	{"key for anybody", "Principal: {AWS: !Sub 'arn:${AWS::Partition}:iam::${AWS::AccountId}:root'}", "Principal: '*'"},
	{"administrators decrypt", "- kms:DescribeKey\n", "- kms:DescribeKey\n              - kms:Decrypt\n"},
	{"alias in place of the key's ARN", "IDEM_KMS_KEY: !GetAtt RecordsKey.Arn", "IDEM_KMS_KEY: !Ref RecordsKeyAlias"},
	{"parameter of another thing", "Value: !Ref ClientPolicy", "Value: !Ref RecordsTable"},
	{"misspelt variable", "PROVIDER_URL", "PROVIDER"},
	{"misspelt build method", "BuildMethod: makefile", "BuildMethod: makfile"},
	{"another architecture", "Architectures: [arm64]", "Architectures: [x86_64]"},
	{"misspelt principal", "Principal: {Service: lambda.amazonaws.com}", "Principal: {Servce: lambda.amazonaws.com}"},
	{"misspelt condition", "            Condition:\n", "            Conditions:\n"},
	{"role without the client policy", "ManagedPolicyArns: [!Ref ClientPolicy]", "ManagedPolicyArns: []"},
	{"logs anywhere", "Resource: !GetAtt PaymentLogs.Arn", "Resource: '*'"},
	{"failures not reported", "            FunctionResponseTypes: [ReportBatchItemFailures]\n", ""},
	{"visibility for one timeout", "!FindInMap [Queue, !Ref FunctionTimeout, Visibility]", "180"},
	{"timeout without a visibility", "[3, 10, 30, 60, 300, 900]", "[3, 10, 30, 60, 120, 300, 900]"},
	{"too few receives", "maxReceiveCount: 10", "maxReceiveCount: 4"},
	{"receives over before a doubt settles", "maxReceiveCount: 10", "maxReceiveCount: 6"},
	{"dead letters of a day", "MessageRetentionPeriod: 1209600", "MessageRetentionPeriod: 86400"},
	{"concurrency bound once", "            ScalingConfig: !If [HasQueueConcurrency, {MaximumConcurrency: !Ref QueueConcurrency}, !Ref AWS::NoValue]\n", ""},
	{"alarm on a dimension that is none", "{Name: QueueName, Value: !GetAtt", "{Name: Queue, Value: !GetAtt"},
	{"alarm on another queue", "!GetAtt PaymentDeadLetters.QueueName", "!GetAtt PaymentQueue.QueueName"},
	{"alarm on a metric that is none", "MetricName: Errors", "MetricName: Indeterminate"},
	{"alarm that sums less", " + FILL(index, 0)", ""},
	{"alarm the wrong way round", "GreaterThanOrEqualToThreshold", "LessThanThreshold"},
	{"alarm that tells nobody", "      AlarmActions: !If [HasAlarmTopic, [!Ref AlarmTopicArn], !Ref AWS::NoValue]\n", ""},
	{"production unwatched", "Assert: !Not [!Equals [!Ref AlarmTopicArn, '']]", "Assert: !Not [!Equals [!Ref Stage, '']]"},
	{"store with an example's alarm", "  DeadLettersAlarm:\n    Type: AWS::CloudWatch::Alarm\n    Condition: WithExample\n", "  DeadLettersAlarm:\n    Type: AWS::CloudWatch::Alarm\n"},
}

// Each planted fault makes the tests of this package fail, in a tree that is the project's but for the template.
func TestPlantedFaultsAreFound(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("runs this package's tests for each fault, in processes of their own: there is no race in it")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	for _, e := range entries {
		if name := e.Name(); name != "template.yaml" && name != "internal" {
			if err := os.Symlink(filepath.Join(root, name), filepath.Join(tree, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	folder := filepath.Join(tree, "internal", "sam")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "internal", "sam", "lint.txt"), filepath.Join(folder, "lint.txt")); err != nil {
		t.Fatal(err)
	}
	text := file(t, "template.yaml")
	run := func(template string) (string, error) {
		if err := os.WriteFile(filepath.Join(tree, "template.yaml"), []byte(template), 0o644); err != nil {
			t.Fatal(err)
		}
		tests := exec.CommandContext(t.Context(), os.Args[0], "-test.skip=TestPlantedFaultsAreFound", "-test.failfast")
		tests.Dir = folder
		out, err := tests.CombinedOutput()
		return string(out), err
	}
	if out, err := run(text); err != nil {
		t.Fatalf("without a fault: %v\n%s", err, out)
	}
	for _, f := range planted {
		if !strings.Contains(text, f.old) {
			t.Errorf("%s: the template has no %q", f.name, f.old)
		} else if _, err := run(strings.Replace(text, f.old, f.new, 1)); err == nil {
			t.Errorf("%s: not found", f.name)
		}
	}
	t.Logf("%d faults", len(planted))
}
