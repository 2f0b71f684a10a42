package sam_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.yaml.in/yaml/v3"

	"github.com/idem-go/idem/internal/sam"
)

// What dynamo/ relies on. Changing the table means changing the store, and the tables of everybody who runs it.
func TestTemplateHasTheRecordsTable(t *testing.T) {
	template, err := sam.Template()
	if err != nil {
		t.Fatal(err)
	}
	got, ttl, err := sam.Table(bytes.NewReader(template))
	if err != nil {
		t.Fatal(err)
	}
	want := &dynamodb.CreateTableInput{
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("iq"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("ia"), AttributeType: types.ScalarAttributeTypeN},
		},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("indeterminate"),
			KeySchema: []types.KeySchemaElement{
				{AttributeName: aws.String("iq"), KeyType: types.KeyTypeHash},
				{AttributeName: aws.String("ia"), KeyType: types.KeyTypeRange},
			},
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
		SSESpecification: &types.SSESpecification{Enabled: aws.Bool(true), SSEType: types.SSETypeKms},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("table = %+v, want %+v", got, want)
	}
	if ttl != "ex" {
		t.Errorf("TTL attribute = %q, want ex", ttl)
	}
}

// Table does not read what only a deployed table has, so it is held here.
func TestTemplateProtectsTheRecordsTable(t *testing.T) {
	template, err := sam.Template()
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Transform string
		Resources struct {
			RecordsTable struct {
				DeletionPolicy      string `yaml:"DeletionPolicy"`
				UpdateReplacePolicy string `yaml:"UpdateReplacePolicy"`
				Properties          struct {
					Recovery   map[string]any `yaml:"PointInTimeRecoverySpecification"`
					Protection any            `yaml:"DeletionProtectionEnabled"`
				} `yaml:"Properties"`
			} `yaml:"RecordsTable"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal(template, &document); err != nil {
		t.Fatal(err)
	}
	table := document.Resources.RecordsTable
	if table.DeletionPolicy != "Retain" || table.UpdateReplacePolicy != "Retain" {
		t.Errorf("policies = %q, %q, want Retain: deleting the stack must not make every key new", table.DeletionPolicy, table.UpdateReplacePolicy)
	}
	if table.Properties.Recovery["PointInTimeRecoveryEnabled"] != true {
		t.Error("no point-in-time recovery")
	}
	if p := table.Properties.Protection; p != true && p != "DeletionProtection" {
		t.Errorf("deletion protection = %v", p)
	}
}

const head = "Resources:\n  RecordsTable:\n    Type: AWS::DynamoDB::Table\n    Properties:\n"

const minimal = `      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: pk, AttributeType: S}]
`

func TestTableToleratesIntrinsics(t *testing.T) {
	template := `
Conditions: {Bounded: !Not [!Equals [!Ref Bound, 0]]}
Resources:
  Other:
    Type: AWS::SQS::Queue
    Properties: {QueueName: !Sub '${AWS::StackName}-q', RedrivePolicy: {deadLetterTargetArn: !GetAtt Dead.Arn}}
` + strings.TrimPrefix(head, "Resources:\n") + minimal + `      KeySchema: [{AttributeName: pk, KeyType: HASH}]
      OnDemandThroughput: !If [Bounded, {MaxWriteRequestUnits: !Ref Bound}, !Ref AWS::NoValue]
      DeletionProtectionEnabled: {Ref: Protection}
      SSESpecification: {SSEEnabled: true, SSEType: KMS, KMSMasterKeyId: !If [HasKey, !Ref Key, !Ref AWS::NoValue]}
      GlobalSecondaryIndexes:
        - IndexName: i
          KeySchema: [{AttributeName: pk, KeyType: HASH}]
          Projection: {ProjectionType: INCLUDE, NonKeyAttributes: [a]}
          OnDemandThroughput: !If [Bounded, {MaxWriteRequestUnits: !Ref Bound}, !Ref AWS::NoValue]
`
	in, ttl, err := sam.Table(strings.NewReader(template))
	if err != nil {
		t.Fatal(err)
	}
	if ttl != "" {
		t.Errorf("TTL attribute = %q, want none", ttl)
	}
	if got := in.GlobalSecondaryIndexes[0].Projection.NonKeyAttributes; len(got) != 1 || got[0] != "a" {
		t.Errorf("projected attributes = %v, want [a]", got)
	}
	if in.SSESpecification == nil || in.SSESpecification.KMSMasterKeyId != nil {
		t.Errorf("SSE = %+v, want KMS with no key of the account", in.SSESpecification)
	}
}

func TestTableRefuses(t *testing.T) {
	tests := []struct{ name, template, want string }{
		{"no resource", "Resources: {A: {Type: AWS::SQS::Queue}}", "no AWS::DynamoDB::Table named RecordsTable"},
		{"another type", "Resources: {RecordsTable: {Type: AWS::Serverless::SimpleTable}}", "no AWS::DynamoDB::Table"},
		{"unknown property", head + minimal + "      StreamSpecification: {StreamViewType: KEYS_ONLY}\n", "StreamSpecification: property unknown"},
		{"intrinsic key", head + minimal + "      KeySchema: !If [A, [], []]\n", "KeySchema: line 7: a value that only CloudFormation knows"},
		{"long intrinsic", head + minimal + "      KeySchema: [{AttributeName: {Ref: K}, KeyType: HASH}]\n", "KeySchema: line 7: a value"},
		{"no key", head + minimal, "no KeySchema"},
		{"no YAML", "\t", "template: "},
		{"empty", "", "template: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, _, err := sam.Table(strings.NewReader(test.template)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want one with %q", err, test.want)
			}
		})
	}
}
