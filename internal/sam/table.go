// Package sam reads the records table out of the project's SAM template, so that the table of a test or of a local back
// end has the shape of the one that is deployed, and there is one place that says what that is.
package sam

import (
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.yaml.in/yaml/v3"
)

// resource is the logical name of the records table in the template.
const resource = "RecordsTable"

// properties lists what a table in the template may say, and whether CreateTable gets it. What is left out concerns the
// account, its bill or its recovery, which no emulator has; deletion protection would keep a test from tidying up. A
// property that is not listed is an error: whoever adds one decides here whether tests need it.
var properties = map[string]bool{
	"AttributeDefinitions":             true,
	"BillingMode":                      true,
	"GlobalSecondaryIndexes":           true,
	"KeySchema":                        true,
	"SSESpecification":                 true,
	"TimeToLiveSpecification":          true, // its attribute is Table's second result
	"ContributorInsightsSpecification": false,
	"DeletionProtectionEnabled":        false,
	"OnDemandThroughput":               false,
	"PointInTimeRecoverySpecification": false,
	"ResourcePolicy":                   false,
	"TableName":                        false,
	"Tags":                             false,
}

type table struct {
	AttributeDefinitions   []definition `yaml:"AttributeDefinitions"`
	BillingMode            string       `yaml:"BillingMode"`
	GlobalSecondaryIndexes []index      `yaml:"GlobalSecondaryIndexes"`
	KeySchema              []key        `yaml:"KeySchema"`
	SSESpecification       struct {
		SSEEnabled bool   `yaml:"SSEEnabled"`
		SSEType    string `yaml:"SSEType"`
	} `yaml:"SSESpecification"`
	TimeToLiveSpecification struct {
		AttributeName string `yaml:"AttributeName"`
		Enabled       bool   `yaml:"Enabled"`
	} `yaml:"TimeToLiveSpecification"`
}

type definition struct {
	AttributeName string `yaml:"AttributeName"`
	AttributeType string `yaml:"AttributeType"`
}

type key struct {
	AttributeName string `yaml:"AttributeName"`
	KeyType       string `yaml:"KeyType"`
}

type index struct {
	IndexName  string `yaml:"IndexName"`
	KeySchema  []key  `yaml:"KeySchema"`
	Projection struct {
		ProjectionType   string   `yaml:"ProjectionType"`
		NonKeyAttributes []string `yaml:"NonKeyAttributes"`
	} `yaml:"Projection"`
}

// Table reads the records table from a template and returns what CreateTable needs, without a name, and the name of the
// TTL attribute ("" if TTL is off). Intrinsic functions may stand anywhere in the template, but not in place of a value
// that CreateTable needs: those are the same in every stack.
func Table(r io.Reader) (*dynamodb.CreateTableInput, string, error) {
	t, err := read(r)
	if err != nil {
		return nil, "", fmt.Errorf("template: %w", err)
	}
	in := &dynamodb.CreateTableInput{BillingMode: types.BillingMode(t.BillingMode), KeySchema: keySchema(t.KeySchema)}
	for _, d := range t.AttributeDefinitions {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(d.AttributeName), AttributeType: types.ScalarAttributeType(d.AttributeType),
		})
	}
	for _, x := range t.GlobalSecondaryIndexes {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(x.IndexName),
			KeySchema: keySchema(x.KeySchema),
			Projection: &types.Projection{
				ProjectionType: types.ProjectionType(x.Projection.ProjectionType), NonKeyAttributes: x.Projection.NonKeyAttributes,
			},
		})
	}
	if t.SSESpecification.SSEEnabled {
		in.SSESpecification = &types.SSESpecification{Enabled: aws.Bool(true), SSEType: types.SSEType(t.SSESpecification.SSEType)}
	}
	if !t.TimeToLiveSpecification.Enabled {
		return in, "", nil
	}
	return in, t.TimeToLiveSpecification.AttributeName, nil
}

func read(r io.Reader) (table, error) {
	var document struct {
		Resources map[string]struct {
			Type       string               `yaml:"Type"`
			Properties map[string]yaml.Node `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	if err := yaml.NewDecoder(r).Decode(&document); err != nil {
		return table{}, err
	}
	found, ok := document.Resources[resource]
	if !ok || found.Type != "AWS::DynamoDB::Table" {
		return table{}, fmt.Errorf("no AWS::DynamoDB::Table named %s", resource)
	}
	wanted := yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for name, value := range found.Properties {
		needed, known := properties[name]
		if !known {
			return table{}, fmt.Errorf("%s.%s: property unknown to internal/sam", resource, name)
		}
		if !needed {
			continue
		}
		plain, err := resolve(&value)
		if err != nil {
			return table{}, fmt.Errorf("%s.%s: %w", resource, name, err)
		}
		wanted.Content = append(wanted.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, plain)
	}
	var t table
	if err := wanted.Decode(&t); err != nil {
		return table{}, fmt.Errorf("%s: %w", resource, err)
	}
	if len(t.KeySchema) == 0 || t.BillingMode == "" {
		return table{}, fmt.Errorf("%s: no KeySchema or no BillingMode", resource)
	}
	return t, nil
}

// resolve returns the node without those members of mappings that CreateTable never gets and whose value an intrinsic
// function gives. An intrinsic function anywhere else is an error: guessing would give tests another table than the
// deployed one.
func resolve(n *yaml.Node) (*yaml.Node, error) {
	if isIntrinsic(n) {
		return nil, fmt.Errorf("line %d: a value that only CloudFormation knows", n.Line)
	}
	plain := *n
	plain.Content = nil
	for i := 0; i < len(n.Content); i++ {
		child := n.Content[i]
		if n.Kind == yaml.MappingNode {
			if child.Value == "OnDemandThroughput" || child.Value == "KMSMasterKeyId" {
				i++ // a bound on the bill; a key of the account
				continue
			}
			plain.Content = append(plain.Content, child)
			i++
			child = n.Content[i]
		}
		resolved, err := resolve(child)
		if err != nil {
			return nil, err
		}
		plain.Content = append(plain.Content, resolved)
	}
	return &plain, nil
}

// isIntrinsic tells !Ref X from plain values, and its long form, {Ref: X} or {Fn::If: [...]}.
func isIntrinsic(n *yaml.Node) bool {
	if len(n.Tag) > 1 && n.Tag[0] == '!' && n.Tag[1] != '!' {
		return true
	}
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		return false
	}
	name := n.Content[0].Value
	return name == "Ref" || len(name) > 4 && name[:4] == "Fn::"
}

func keySchema(keys []key) []types.KeySchemaElement {
	var schema []types.KeySchemaElement
	for _, k := range keys {
		schema = append(schema, types.KeySchemaElement{AttributeName: aws.String(k.AttributeName), KeyType: types.KeyType(k.KeyType)})
	}
	return schema
}
