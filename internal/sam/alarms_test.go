package sam_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// metrics are those that AWS has without being asked, with the names of their dimensions, from the metrics pages of each service's
// guide. A metric under other dimensions is another metric, and an alarm on it never has data. The kinds of idem.Event are no
// metrics: nothing here publishes them.
var metrics = map[string][]string{
	"AWS/DynamoDB ReadThrottleEvents":            {"TableName"},
	"AWS/DynamoDB WriteThrottleEvents":           {"TableName", "GlobalSecondaryIndexName,TableName"},
	"AWS/Lambda Errors":                          {"FunctionName"},
	"AWS/Lambda Throttles":                       {"FunctionName"},
	"AWS/SQS ApproximateNumberOfMessagesVisible": {"QueueName"},
}

// dimensions say whose metric it is: a resource of that type in this stack, or the table's index.
var dimensions = map[string]string{
	"TableName": "AWS::DynamoDB::Table", "FunctionName": "AWS::Serverless::Function", "QueueName": "AWS::SQS::Queue",
}

// metric is one that an alarm watches.
type metric struct {
	name string // namespace and name
	of   map[string]string
}

func metricsOf(t *testing.T, alarm map[string]any) (all []metric) {
	t.Helper()
	one := func(m map[string]any) {
		of := map[string]string{}
		for _, d := range m["Dimensions"].([]any) {
			of[fmt.Sprint(section(d)["Name"])] = fmt.Sprint(section(d)["Value"])
		}
		all = append(all, metric{fmt.Sprint(m["Namespace"], " ", m["MetricName"]), of})
	}
	if alarm["MetricName"] != nil {
		one(alarm)
	}
	queries, _ := alarm["Metrics"].([]any)
	for _, q := range queries {
		if m := section(q, "MetricStat", "Metric"); m != nil {
			one(m)
			if id := fmt.Sprint(section(q)["Id"]); !strings.Contains(fmt.Sprint(section(queries[0])["Expression"]), id+",") {
				t.Errorf("%s is in no expression", id)
			}
		}
	}
	return all
}

func TestAlarmsWatchWhatExists(t *testing.T) {
	const topic = "arn:aws:sns:eu-central-1:111122223333:calls"
	s := deploy(t, map[string]any{"ProviderUrl": "https://psp.example", "AlarmTopicArn": topic})
	watched := map[string]bool{}
	for _, name := range s.of("AWS::CloudWatch::Alarm") {
		alarm := s.properties(name)
		all := metricsOf(t, alarm)
		if len(all) == 0 {
			t.Errorf("%s watches nothing", name)
		}
		for _, m := range all {
			set := strings.Join(slices.Sorted(maps.Keys(m.of)), ",")
			if !slices.Contains(metrics[m.name], set) {
				t.Errorf("%s: no metric %s with dimensions %s", name, m.name, set)
			}
			for d, value := range m.of {
				if kind := dimensions[d]; kind != "" && s.kind(resource(value)) != kind {
					t.Errorf("%s: %s = %s is no %s of this stack", name, d, value, kind)
				}
				if d == "GlobalSecondaryIndexName" && value != constants(t, "../../dynamo")["index"] {
					t.Errorf("%s: no index %s", name, value)
				}
				watched[m.name+" "+resource(value)] = true
			}
		}
		if got := list(alarm["AlarmActions"]); !slices.Equal(got, []string{topic}) {
			t.Errorf("%s tells %q", name, got)
		}
		// All of them count what should not happen, and no data is none of it.
		if alarm["ComparisonOperator"] != "GreaterThanOrEqualToThreshold" || number(t, name, alarm["Threshold"]) < 1 || alarm["TreatMissingData"] != "notBreaching" {
			t.Errorf("%s: %v %v, missing data %v", name, alarm["ComparisonOperator"], alarm["Threshold"], alarm["TreatMissingData"])
		}
		if alarm["AlarmDescription"] == nil {
			t.Errorf("%s does not say what to do", name)
		}
	}
	want := []string{"AWS/SQS ApproximateNumberOfMessagesVisible PaymentDeadLetters", "AWS/DynamoDB WriteThrottleEvents RecordsTable"}
	for f := range programs {
		want = append(want, "AWS/Lambda Errors "+f, "AWS/Lambda Throttles "+f)
	}
	for _, w := range want {
		if !watched[w] {
			t.Errorf("nobody watches %s", w)
		}
	}
}
